//! What RM tells of a GPU and of who has it.

use std::time::{Duration, Instant};

use drivers_spec::nv::abi::Struct;
use drivers_spec::nv::shared::{SharedData, at, poll};
use drivers_spec::nv::{class, control, escape, query, status};
use twin::fires::fires;

use super::bench::Bench;

/// A dword of the page, once it is there.
fn measured(bench: &Bench, name: &str, offset: usize) -> u32 {
    let branch = bench.machine.branch();
    let mut fields = SharedData::LAYOUT.fields(branch);
    let field = fields.find(|field| field.name == name).unwrap();
    let page = bench.machine.state().shared_page(0).unwrap();
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        let mut bytes = [0; 16];
        assert!(page.contents.read(field.at as u64, &mut bytes));
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
        if ![0, u32::MAX].contains(&word(0)) {
            return word(offset);
        }
        assert!(Instant::now() < end, "{name} is not measured");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn a_page_of_measurements_has_what_was_asked_for() {
    for (driver, temperature) in [
        ("550", "temperature"),
        ("570", "temperatures"),
        ("580", "temperatures"),
    ] {
        let bench = Bench::with_device(&format!("chip=ad102,driver={driver}"));
        let mut params = class::SharedDataAlloc {
            polled_data_mask: poll::THERMAL,
            ..Default::default()
        };
        bench.must(
            bench.subdevice,
            class::RM_USER_SHARED_DATA,
            Some(&mut params),
        );
        assert_eq!(measured(&bench, temperature, at::TEMPERATURE), 34 << 8);
        let page = bench.machine.state().shared_page(0).unwrap();
        let mut fields = SharedData::LAYOUT.fields(bench.machine.branch());
        let clocks = fields
            .find(|field| field.name == "clkPublicDomainInfos")
            .unwrap();
        let mut time = [1; 8];
        assert!(page.contents.read(clocks.at as u64, &mut time));
        assert_eq!(time, [0; 8], "nobody has asked for clocks");
        assert!(bench.broken().is_empty());
    }
    let bench = Bench::with_device("chip=ad102");
    let mut params = class::SharedDataAlloc::default();
    let class = class::RM_USER_SHARED_DATA.number;
    let (refused, _) = bench.alloc(bench.device, class, 0, Some(&mut params));
    assert_eq!(refused, status::NV_ERR_INVALID_OBJECT_PARENT);
    fires("RM-PARENT").only(&bench.broken());
    let bench = Bench::with_device("chip=ad102");
    let (refused, _) = bench.alloc::<escape::Free>(bench.subdevice, class, 0, None);
    assert_eq!(refused, status::NV_ERR_INVALID_ARGUMENT);
    fires("RM-ALLOC-PARAMS").only(&bench.broken());
}

#[test]
fn processes_are_told_by_the_classes_of_their_objects() {
    let bench = Bench::with_channel("chip=ad102");
    let pids = control::NV2080_CTRL_CMD_GPU_GET_PIDS;
    let ask = |id: u32| {
        let mut params = query::Pids {
            id,
            ..Default::default()
        };
        assert_eq!(bench.control(bench.subdevice, pids, &mut params), 0);
        params.pid_tbl[..params.pid_tbl_count as usize].to_vec()
    };
    let own = [bench.process.id()];
    assert_eq!(ask(class::NV20_SUBDEVICE_0.number), own);
    assert_eq!(ask(class::ADA_COMPUTE_A.number), own);
    assert!(ask(class::AMPERE_DMA_COPY_B.number).is_empty());
    let mut info = query::PidInfos {
        pid_info_list_count: 2,
        ..Default::default()
    };
    info.pid_info_list[0].pid = own[0];
    let infos = control::NV2080_CTRL_CMD_GPU_GET_PID_INFO;
    assert_eq!(bench.control(bench.subdevice, infos, &mut info), 0);
    let [known, nobody, ..] = info.pid_info_list;
    let local = bench.machine.state().local_in_use(0);
    assert_eq!((known.result, known.data.mem_private), (0, local));
    assert_eq!(nobody.result, status::NV_ERR_INVALID_ARGUMENT);
    assert!(local > 0 && bench.broken().is_empty());

    for count in [0, 201] {
        info.pid_info_list_count = count;
        let refused = bench.control(bench.subdevice, infos, &mut info);
        assert_eq!(refused, status::NV_ERR_INVALID_ARGUMENT);
    }
    let mut by = query::Pids {
        id_type: 2,
        ..Default::default()
    };
    let refused = bench.control(bench.subdevice, pids, &mut by);
    assert_eq!(refused, status::NV_ERR_INVALID_ARGUMENT);
    assert_eq!(bench.broken(), ["RM-CONTROL-VALUE"; 3]);
}
