//! Names of the numbers that OpenCL's functions return.
//!
//! Source: Khronos, `CL/cl.h` and `CL/cl_ext.h`.

/// Numbers and names.
const NAMES: &[(i32, &str)] = &[
    (0, "CL_SUCCESS"),
    (-1, "CL_DEVICE_NOT_FOUND"),
    (-2, "CL_DEVICE_NOT_AVAILABLE"),
    (-3, "CL_COMPILER_NOT_AVAILABLE"),
    (-4, "CL_MEM_OBJECT_ALLOCATION_FAILURE"),
    (-5, "CL_OUT_OF_RESOURCES"),
    (-6, "CL_OUT_OF_HOST_MEMORY"),
    (-7, "CL_PROFILING_INFO_NOT_AVAILABLE"),
    (-8, "CL_MEM_COPY_OVERLAP"),
    (-9, "CL_IMAGE_FORMAT_MISMATCH"),
    (-10, "CL_IMAGE_FORMAT_NOT_SUPPORTED"),
    (-11, "CL_BUILD_PROGRAM_FAILURE"),
    (-12, "CL_MAP_FAILURE"),
    (-13, "CL_MISALIGNED_SUB_BUFFER_OFFSET"),
    (-14, "CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST"),
    (-15, "CL_COMPILE_PROGRAM_FAILURE"),
    (-16, "CL_LINKER_NOT_AVAILABLE"),
    (-17, "CL_LINK_PROGRAM_FAILURE"),
    (-18, "CL_DEVICE_PARTITION_FAILED"),
    (-19, "CL_KERNEL_ARG_INFO_NOT_AVAILABLE"),
    (-30, "CL_INVALID_VALUE"),
    (-31, "CL_INVALID_DEVICE_TYPE"),
    (-32, "CL_INVALID_PLATFORM"),
    (-33, "CL_INVALID_DEVICE"),
    (-34, "CL_INVALID_CONTEXT"),
    (-35, "CL_INVALID_QUEUE_PROPERTIES"),
    (-36, "CL_INVALID_COMMAND_QUEUE"),
    (-37, "CL_INVALID_HOST_PTR"),
    (-38, "CL_INVALID_MEM_OBJECT"),
    (-42, "CL_INVALID_BINARY"),
    (-43, "CL_INVALID_BUILD_OPTIONS"),
    (-44, "CL_INVALID_PROGRAM"),
    (-45, "CL_INVALID_PROGRAM_EXECUTABLE"),
    (-46, "CL_INVALID_KERNEL_NAME"),
    (-47, "CL_INVALID_KERNEL_DEFINITION"),
    (-48, "CL_INVALID_KERNEL"),
    (-49, "CL_INVALID_ARG_INDEX"),
    (-50, "CL_INVALID_ARG_VALUE"),
    (-51, "CL_INVALID_ARG_SIZE"),
    (-52, "CL_INVALID_KERNEL_ARGS"),
    (-53, "CL_INVALID_WORK_DIMENSION"),
    (-54, "CL_INVALID_WORK_GROUP_SIZE"),
    (-55, "CL_INVALID_WORK_ITEM_SIZE"),
    (-56, "CL_INVALID_GLOBAL_OFFSET"),
    (-57, "CL_INVALID_EVENT_WAIT_LIST"),
    (-58, "CL_INVALID_EVENT"),
    (-59, "CL_INVALID_OPERATION"),
    (-61, "CL_INVALID_BUFFER_SIZE"),
    (-63, "CL_INVALID_GLOBAL_WORK_SIZE"),
    (-64, "CL_INVALID_PROPERTY"),
    (-66, "CL_INVALID_COMPILER_OPTIONS"),
    (-67, "CL_INVALID_LINKER_OPTIONS"),
    (-1001, "CL_PLATFORM_NOT_FOUND_KHR"),
];

/// A call that failed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{call}: {}{detail}", named(.status))]
pub struct Failed {
    /// The function.
    pub call: &'static str,
    /// What it returned.
    pub status: i32,
    /// More about it: a build log, or empty.
    pub detail: String,
}

impl Failed {
    /// Whether memory was missing.
    pub fn is_memory(&self) -> bool {
        matches!(self.status, -4 | -5 | -6 | -61)
    }
}

/// The name of a number, with the number.
pub fn name(status: i32) -> String {
    match NAMES.iter().find(|(number, _)| *number == status) {
        Some((_, name)) => format!("{name} ({status})"),
        None => format!("status {status}"),
    }
}

fn named(status: &i32) -> String {
    name(*status)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_their_names() {
        assert_eq!(name(-11), "CL_BUILD_PROGRAM_FAILURE (-11)");
        assert_eq!(name(-9999), "status -9999");
        let failed = Failed {
            call: "clCreateBuffer",
            status: -4,
            detail: String::new(),
        };
        assert!(failed.is_memory());
        assert_eq!(
            failed.to_string(),
            "clCreateBuffer: CL_MEM_OBJECT_ALLOCATION_FAILURE (-4)"
        );
        let mut numbers: Vec<i32> = NAMES.iter().map(|row| row.0).collect();
        numbers.dedup();
        assert_eq!(numbers.len(), NAMES.len());
    }
}
