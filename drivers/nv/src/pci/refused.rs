//! What RM on GSP refuses, as errors of the device.

use drivers_gpu::bare::Function;
use drivers_spec::nv::status;
use hcq::Error;

use crate::gsp::Cause;
use crate::rm::CallError;

/// What a call of a running card came to.
pub(super) fn of_call(function: &Function, error: CallError) -> Error {
    let CallError::Status {
        file,
        call,
        status: number,
    } = error
    else {
        return function.broken("RM on GSP", error);
    };
    let name = status::status_name(number).unwrap_or("unknown");
    Error::Os {
        device: function.device().clone(),
        call: format!("{file}: {call}"),
        source_text: format!("expected NV_OK, found status {number:#x} ({name})"),
        errno: None,
        hint: "Drop all handles of the card, and open it again: that starts it anew".into(),
    }
}

/// What a step of a running card came to.
pub(super) fn of_cause(function: &Function, cause: Cause) -> Error {
    match cause {
        Cause::Call(error) => of_call(function, error),
        Cause::Memory(error) => error,
        other => function.broken("RM on GSP", other),
    }
}
