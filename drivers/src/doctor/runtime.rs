//! Vendors' runtimes: whether their libraries load. They are started only if one is selected: a start makes device files.

use drivers_runtime::{Survey, Unusable};

use super::{Row, Status};
use crate::select::DeviceKind;

/// A row for each runtime; `selected` is the device that is asked for.
pub fn runtimes(selected: DeviceKind) -> Vec<Row> {
    let cuda = (DeviceKind::Cuda, "a fallback beside DEV=NV");
    let hip = (DeviceKind::Hip, "a fallback beside DEV=AMD");
    let started = |kind| selected == kind;
    vec![
        match started(DeviceKind::Cuda) {
            true => surveyed(cuda, drivers_cuda::survey()),
            false => loaded(cuda, drivers_cuda::library()),
        },
        match started(DeviceKind::Hip) {
            true => surveyed(hip, drivers_hip::survey()),
            false => loaded(hip, drivers_hip::library()),
        },
    ]
}

fn loaded((kind, what): (DeviceKind, &str), library: Result<&'static str, Unusable>) -> Row {
    let name = kind.name();
    match library {
        Ok(library) => Row::new(
            name.to_lowercase(),
            Status::Ok,
            format!("{library} loads ({what}; not started: DEV={name} doorbell doctor starts it)"),
        ),
        Err(why) => unusable((kind, what), &why),
    }
}

fn surveyed((kind, what): (DeviceKind, &str), survey: Result<Survey, Unusable>) -> Row {
    let check = kind.name().to_lowercase();
    let survey = match survey {
        Ok(survey) => survey,
        Err(why) => return unusable((kind, what), &why),
    };
    let gpus = survey.gpus.iter();
    let gpus: Vec<_> = gpus
        .map(|gpu| format!("{} {} ({})", gpu.index, gpu.name, gpu.arch))
        .collect();
    let (library, version) = (survey.library, &survey.version);
    match gpus.is_empty() {
        true => Row::new(
            check,
            Status::Fail,
            format!("{library}: {version} finds no GPU ({what})"),
        )
        .fix("see the rows of the kernel driver above; in a container, pass the GPU in"),
        false => {
            let detail = format!("{library}: {version}; {} ({what})", gpus.join(", "));
            Row::new(check, Status::Ok, detail)
        }
    }
}

fn unusable((kind, what): (DeviceKind, &str), why: &Unusable) -> Row {
    let check = kind.name().to_lowercase();
    match why {
        Unusable::Library { why: absent, .. } if why.is_absent() => {
            Row::new(check, Status::Absent, format!("{absent} ({what})"))
        }
        Unusable::Library { why, fix } => {
            Row::new(check, Status::Fail, format!("{why} ({what})")).fix(*fix)
        }
        Unusable::Refused(refusal) => {
            Row::new(check, Status::Fail, format!("{refusal} ({what})")).fix(refusal.hint)
        }
    }
}

#[cfg(test)]
mod tests {
    use drivers_runtime::{Found, NoLibrary, Refusal};

    use super::*;

    const CUDA: (DeviceKind, &str) = (DeviceKind::Cuda, "a fallback");

    fn library(why: NoLibrary) -> Unusable {
        Unusable::Library {
            why,
            fix: "install it",
        }
    }

    #[test]
    fn a_runtime_is_absent_broken_or_there() {
        let absent = loaded(CUDA, Err(library(NoLibrary::Absent("libcuda.so.1".into()))));
        let expected = "libcuda.so.1 is not installed (a fallback)";
        assert_eq!((absent.status, &*absent.detail), (Status::Absent, expected));
        let broken = NoLibrary::Broken {
            name: "libcuda.so.1".into(),
            why: "wrong ELF class".into(),
        };
        let broken = loaded(CUDA, Err(library(broken)));
        assert_eq!((broken.status, &*broken.fix), (Status::Fail, "install it"));
        let there = loaded(CUDA, Ok("libcuda.so.1"));
        assert_eq!(there.status, Status::Ok);
        assert!(
            there.detail.contains("DEV=CUDA doorbell doctor"),
            "{}",
            there.detail
        );
        assert_eq!(there.check, "cuda");
    }

    #[test]
    fn a_started_runtime_lists_its_gpus_or_what_it_refuses() {
        let mut survey = Survey {
            version: "CUDA 12.4".into(),
            library: "libcuda.so.1",
            gpus: vec![Found {
                index: 0,
                place: "0000:03:00.0".into(),
                name: "NVIDIA GeForce RTX 4090".into(),
                arch: "sm_89".into(),
                units: 128,
                memory: 24 << 30,
                can_write: true,
            }],
        };
        let row = surveyed(CUDA, Ok(survey.clone()));
        let expected = "libcuda.so.1: CUDA 12.4; 0 NVIDIA GeForce RTX 4090 (sm_89) (a fallback)";
        assert_eq!((row.status, &*row.detail), (Status::Ok, expected));
        survey.gpus.clear();
        assert_eq!(surveyed(CUDA, Ok(survey)).status, Status::Fail);
        let refusal = Refusal {
            call: "cuInit",
            code: 803,
            name: "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH".into(),
            text: String::new(),
            hint: "restart the machine",
            is_sticky: false,
            is_memory: false,
        };
        let row = surveyed(CUDA, Err(Unusable::Refused(refusal)));
        assert_eq!(
            (row.status, &*row.fix),
            (Status::Fail, "restart the machine")
        );
        let expected = "cuInit: CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803) (a fallback)";
        assert_eq!(row.detail, expected);
    }
}
