//! [`Refusal`]: a call that the runtime refused.

use hcq::{DeviceId, Error};

/// What a call gives.
pub type Answer<T> = Result<T, Refusal>;

/// A call that the runtime refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{call}: {name}{}{}", number(.code), said(.text))]
pub struct Refusal {
    /// The function.
    pub call: &'static str,
    /// Its result; 0 if the refusal is ours.
    pub code: i32,
    /// The vendor's name of it.
    pub name: String,
    /// The vendor's text for it, or empty.
    pub text: String,
    /// What to do.
    pub hint: &'static str,
    /// All later calls of this process fail as well: the context is lost.
    pub is_sticky: bool,
    /// There is not enough memory.
    pub is_memory: bool,
}

fn number(code: &i32) -> String {
    match code {
        0 => String::new(),
        code => format!(" ({code})"),
    }
}

fn said(text: &str) -> String {
    match text.is_empty() {
        true => String::new(),
        false => format!(": {text}"),
    }
}

impl Refusal {
    /// A refusal of our own.
    pub fn own(call: &'static str, name: String, hint: &'static str) -> Refusal {
        Refusal {
            call,
            code: 0,
            name,
            text: String::new(),
            hint,
            is_sticky: false,
            is_memory: false,
        }
    }

    /// The error of a device. One that takes the context with it is a fault, which loses the device.
    pub fn error(self, device: &DeviceId) -> Error {
        match self.is_sticky {
            true => Error::Fault {
                device: device.clone(),
                unit: "context".into(),
                what: format!("{self}. {}", self.hint),
            },
            false => Error::Os {
                device: device.clone(),
                call: self.call.into(),
                source_text: format!("{}{}{}", self.name, number(&self.code), said(&self.text)),
                errno: None,
                hint: self.hint.into(),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_context_is_a_fault_and_other_refusals_are_of_the_system() {
        let mut refusal = Refusal {
            call: "cuStreamQuery",
            code: 700,
            name: "CUDA_ERROR_ILLEGAL_ADDRESS".into(),
            text: "an illegal memory access was encountered".into(),
            hint: "Restart the program",
            is_sticky: true,
            is_memory: false,
        };
        let id = DeviceId::new("CUDA", 0);
        let error = refusal.clone().error(&id);
        assert!(matches!(error, Error::Fault { .. }));
        assert_eq!(
            error.to_string(),
            "CUDA:0 context: cuStreamQuery: CUDA_ERROR_ILLEGAL_ADDRESS (700): an illegal memory access was encountered. \
             Restart the program"
        );
        refusal.is_sticky = false;
        refusal.text.clear();
        let error = refusal.error(&id).to_string();
        let expected =
            "CUDA:0 cuStreamQuery: CUDA_ERROR_ILLEGAL_ADDRESS (700). Restart the program";
        assert_eq!(error, expected);
        let own = Refusal::own("clock", "no event".into(), "Wait");
        assert_eq!(own.to_string(), "clock: no event");
        assert_eq!(own.error(&id).to_string(), "CUDA:0 clock: no event. Wait");
    }
}
