use super::*;

fn run(api: &str, cli: &str, env: &[(&str, &str)]) -> Result<Selection, String> {
    let some = |text: &'static str| text;
    let _ = some;
    let option = |text: &str| (!text.is_empty()).then(|| text.to_string());
    select(
        option(api).as_deref(),
        option(cli).as_deref(),
        env.iter().copied(),
    )
    .map_err(|e| e.to_string())
}

fn spelled(selection: &Selection) -> String {
    selection
        .targets
        .iter()
        .map(Target::to_string)
        .collect::<Vec<_>>()
        .join(";")
}

#[test]
fn the_grammar_and_its_canonical_spelling() {
    for (text, canonical) in [
        ("CPU", "CPU"),
        ("cpu", "CPU"),
        ("AMD", "AMD"),
        ("PCI+AMD", "PCI+AMD"),
        ("usb+amd", "USB+AMD"),
        ("PCI:0-3+AMD", "PCI:0-3+AMD"),
        ("PCI:3,1,0,1+AMD", "PCI:0-1,3+AMD"),
        ("KFD:7+AMD::gfx1100", "KFD:7+AMD::gfx1100"),
        ("KFD+AMD:1::gfx1100", "KFD:1+AMD::gfx1100"),
        ("AMD:0-1:LLVM", "AMD:0-1:LLVM"),
        ("NV:2", "NV:2"),
        (":0-1+NV:PTX", "NV:0-1:PTX"),
        ("NV:ptx:sm_90", "NV:PTX:sm_90"),
        ("NVK+NV:NAK", "NVK+NV:NAK"),
        (
            "CPU:LLVM:x86_64,znver2,avx2,-avx512f",
            "CPU:LLVM:x86_64,znver2,avx2,-avx512f",
        ),
        ("CPU:LLVM:x86_64,+avx2", "CPU:LLVM:x86_64,+avx2"),
        ("AMD::gfx90a:xnack+", "AMD::gfx90a:xnack+"),
        ("CPU:CLANGJIT", "CPU:CLANG"),
        ("QCOM:IR3:a630", "QCOM:IR3:a630"),
        ("kgsl+qcom:cl", "KGSL+QCOM:CL"),
        ("KGSL+QCOM", "KGSL+QCOM"),
        ("kgsl+qcom::a630", "KGSL+QCOM::a630"),
        ("MSM+QCOM", "MSM+QCOM"),
        ("TWINMSM:1+QCOM::a660", "TWINMSM:1+QCOM::a660"),
        ("TWINKFD+AMD::gfx1100", "TWINKFD+AMD::gfx1100"),
        ("MOCKPCI+AMD", "TWINPCI+AMD"),
        ("MOCKNVK+NV", "TWINNVK+NV"),
        ("PCI+AMD; CPU ;WEBGPU", "PCI+AMD;CPU;WEBGPU"),
    ] {
        let targets = parse_targets("DEV", text).unwrap();
        let again = targets
            .iter()
            .map(Target::to_string)
            .collect::<Vec<_>>()
            .join(";");
        assert_eq!(again, canonical, "{text}");
        assert_eq!(parse_targets("DEV", &again).unwrap(), targets, "{text}");
    }
}

#[test]
fn there_is_one_cpu() {
    for text in ["CPU:9", "CPU:0-1", ":3+CPU", "cpu:1:LLVM"] {
        for (cli, dev) in [(text, ""), ("", text)] {
            let error = run("", cli, &[("DEV", dev)]).unwrap_err();
            let said = "expected CPU without a number, since there is one CPU device, found \"CPU:";
            assert!(error.contains(said), "{error}");
            assert!(error.contains("leave out the number"), "{error}");
        }
    }
    assert!(run("", "", &[("DEV", "CPU:0")]).is_ok());
    assert!(run("CPU:1", "", &[]).is_ok());
}

#[test]
fn a_chain_has_its_own_separator() {
    let chain = |text: &str| parse_chain(&format!("DEV={text}"), text).map_err(|e| e.to_string());
    let two = chain("QCOM | CPU").unwrap();
    assert_eq!(
        two.iter().map(Target::to_string).collect::<Vec<_>>(),
        ["QCOM", "CPU"]
    );
    assert_eq!(
        chain("QCOM;CPU").unwrap_err(),
        "DEV=QCOM;CPU: expected one device, or several with | between them in the order in which they are tried, \
         found \"QCOM;CPU\"; separate them by |, in quotes: DEV='QCOM|CPU'"
    );
    // A program may have several; of a person, `one_cpu` refuses a number.
    assert!(chain("QCOM|CPU:2").is_ok());
    for wrong in ["QCOM|", "", "QCOM|nothing"] {
        assert!(chain(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn what_is_not_understood_is_named_with_the_nearest() {
    for (text, error) in [
        (
            "AMX",
            "DEV=AMX: expected a device (CPU, AMD, NV, QCOM, CUDA, HIP, CL, METAL, WEBGPU), \
             found \"AMX\"; did you mean AMD?",
        ),
        (
            "CPU;",
            "DEV=CPU;: expected a device (CPU, AMD, NV, QCOM, CUDA, HIP, CL, METAL, WEBGPU), \
             found \"\"; choose one of these",
        ),
        (
            "PCIE+AMD",
            "DEV=PCIE+AMD: expected an interface of AMD (KFD, PCI, USB, TWINKFD, TWINPCI, \
             TWINUSB), found \"PCIE\"; did you mean PCI?",
        ),
        (
            "NVK+AMD",
            "DEV=NVK+AMD: expected an interface of AMD (KFD, PCI, USB, TWINKFD, TWINPCI, \
             TWINUSB), found \"NVK\"; choose one of these",
        ),
        (
            "MOCKPIC+NV",
            "DEV=MOCKPIC+NV: expected an interface of NV (NVK, PCI, USB, TWINNVK, TWINPCI, \
             TWINUSB), found \"TWINPIC\"; did you mean TWINPCI?",
        ),
        (
            "PCI+CPU",
            "DEV=PCI+CPU: expected no interface, since this device has only one, \
             found \"PCI+CPU\"; leave out the interface and the '+'",
        ),
        (
            "NV:PTZ",
            "DEV=NV:PTZ: expected a renderer of NV (CUDA, PTX, LLVM, NAK), found \"PTZ\"; did you mean PTX?",
        ),
        (
            "METAL:X",
            "DEV=METAL:X: expected no renderer, since this device has only one, \
             found \"METAL:X\"; leave out the renderer",
        ),
        (
            "PCI:3-0+AMD",
            "DEV=PCI:3-0+AMD: expected device numbers from 0 to 1023 as a list of ascending \
             ranges, found \"3-0\"; for example 0, 0-3 or 0,2-3",
        ),
        (
            "KFD:0+AMD:1",
            "DEV=KFD:0+AMD:1: expected device numbers in one place, found \"AMD:1\"; keep those \
             before the '+'",
        ),
        (
            "AMD::gfx 9",
            "DEV=AMD::gfx 9: expected an architecture of letters, digits and _-.+: with commas \
             between non-empty parts, found \"gfx 9\"; for example AMD::gfx1100 or \
             CPU:LLVM:x86_64,avx2,-avx512f",
        ),
    ] {
        assert_eq!(run("", "", &[("DEV", text)]).unwrap_err(), error);
    }
    for indices in ["", "a", "0-", "-1", "0,,1", "1024", "0-4294967295", "0-1-2"] {
        assert!(
            run("", "", &[("DEV", &format!("PCI:{indices}+AMD"))]).is_err(),
            "{indices}"
        );
    }
    for arch in ["", ",", "a,", "a;b:c,,", "\u{e9}"] {
        assert!(
            parse_target("DEV", &format!("AMD::{arch}")).is_err(),
            "{arch}"
        );
    }
}

#[test]
fn precedence() {
    let env = [("DEV", "AMD")];
    for (api, cli, env, source, targets, notes) in [
        ("", "", &[][..], Source::Autodetect, "", &[][..]),
        ("", "", &[("DEV", "")], Source::Autodetect, "", &[]),
        ("", "", &env, Source::Dev, "AMD", &[]),
        (
            "",
            "CPU",
            &env,
            Source::Cli,
            "CPU",
            &["DEV=AMD is ignored: --dev=CPU takes precedence"],
        ),
        (
            "NV",
            "CPU",
            &env,
            Source::Api,
            "NV",
            &[
                "--dev=CPU is ignored: the caller's choice=NV takes precedence",
                "DEV=AMD is ignored: the caller's choice=NV takes precedence",
            ],
        ),
        (
            "",
            "CPU",
            &[("NV", "1")],
            Source::Cli,
            "CPU",
            &[
                "NV=1 is ignored: --dev=CPU takes precedence",
                "NV=1: old name; use DEV=NV",
            ],
        ),
    ] {
        let selection = run(api, cli, env).unwrap();
        assert_eq!(
            (
                selection.source,
                spelled(&selection).as_str(),
                selection.notes.as_slice()
            ),
            (
                source,
                targets,
                notes
                    .iter()
                    .map(|n| n.to_string())
                    .collect::<Vec<_>>()
                    .as_slice()
            )
        );
    }
}

#[test]
fn old_names_and_their_new_form() {
    for (env, new) in [
        (&[("CPU", "1")][..], "CPU"),
        (&[("AMD", "1")], "AMD"),
        (&[("AMD", "1"), ("NV", "0"), ("CUDA", "")], "AMD"),
        (&[("QCOM", "1"), ("QCOM_IR3", "1")], "QCOM:IR3"),
        (&[("QCOM", "1"), ("QCOM_CL", "1")], "QCOM:CL"),
        (&[("QCOM", "1"), ("QCOM_CC", "CL")], "QCOM:CL"),
        (&[("METAL", "1")], "METAL"),
        (&[("WEBGPU", "1")], "WEBGPU"),
        (&[("CL", "1")], "CL"),
        (&[("HIP", "1")], "HIP"),
        (&[("AMD", "1"), ("AMD_IFACE", "pci")], "PCI+AMD"),
        (
            &[("AMD", "1"), ("AMD_IFACE", "USB"), ("AMD_LLVM", "1")],
            "USB+AMD:LLVM",
        ),
        (&[("AMD", "1"), ("AMD_HIP", "1")], "AMD:HIP"),
        (
            &[("NV", "1"), ("NV_IFACE", "NVK"), ("NV_NAK", "1")],
            "NVK+NV:NAK",
        ),
        (&[("NV", "1"), ("NV_PTX", "1")], "NV:PTX"),
        (&[("NV", "1"), ("NV_NVRTC", "1")], "NV:CUDA"),
        (
            &[("NV", "1"), ("NV_NVCC", "1"), ("NV_CUDA", "1")],
            "NV:CUDA",
        ),
        (&[("NV", "1"), ("NV_LLVM", "1")], "NV:LLVM"),
        (&[("NV", "1"), ("NV_CC", "ptx")], "NV:PTX"),
        (&[("CPU", "1"), ("CPU_CC", "CLANGJIT")], "CPU:CLANG"),
        (&[("MOCKNVK", "1"), ("NV_CC", "NAK")], "TWINNVK+NV:NAK"),
        (&[("CUDA", "1"), ("CUDA_PTX", "1")], "CUDA:PTX"),
        (&[("CPU", "1"), ("CPU_LLVM", "1")], "CPU:LLVM"),
        (
            &[("CPU", "1"), ("CPU_CLANG", "1"), ("CPU_CLANGJIT", "1")],
            "CPU:CLANG",
        ),
        (
            &[("AMD", "1"), ("HCQ_VISIBLE_DEVICES", "0-2,5")],
            "AMD:0-2,5",
        ),
        (&[("CPU", "1"), ("HCQ_VISIBLE_DEVICES", "0-2")], "CPU"),
        (&[("MOCKGPU", "1")], "TWINKFD+AMD::gfx1100"),
        (&[("MOCKKFD", "1")], "TWINKFD+AMD::gfx1100"),
        (&[("MOCKPCI", "1")], "TWINPCI+AMD::gfx1100"),
        (&[("MOCKUSB", "1")], "TWINUSB+AMD::gfx1100"),
        (&[("MOCKNVK", "1")], "TWINNVK+NV"),
        (&[("MOCKGPU", "1"), ("NV", "1")], "TWINNVK+NV"),
        (&[("MOCKPCI", "1"), ("NV", "1")], "TWINPCI+NV"),
        (
            &[("MOCKGPU", "1"), ("AMD", "1"), ("AMD_IFACE", "PCI")],
            "TWINPCI+AMD::gfx1100",
        ),
    ] {
        let selection = run("", "", env).unwrap();
        assert_eq!(spelled(&selection), new, "{env:?}");
        assert_eq!(selection.source, Source::Legacy);
        let note = selection.notes.last().unwrap();
        assert!(
            note.ends_with(&format!(": old name; use DEV={new}")),
            "{note}"
        );
        // The new form alone says the same, without a note.
        let modern = run("", "", &[("DEV", new)]).unwrap();
        assert_eq!((modern.targets, modern.notes), (selection.targets, vec![]));
    }
}

#[test]
fn old_names_fill_in_what_new_ones_leave_open() {
    let env = [("DEV", "AMD;CPU"), ("AMD_IFACE", "PCI"), ("CPU_LLVM", "1")];
    let selection = run("", "", &env).unwrap();
    assert_eq!(selection.source, Source::Dev);
    assert_eq!(spelled(&selection), "PCI+AMD;CPU:LLVM");
    assert_eq!(
        selection.notes,
        ["AMD_IFACE=PCI CPU_LLVM=1: old name; use DEV='PCI+AMD;CPU:LLVM'"]
    );
    let same = run(
        "",
        "",
        &[("DEV", "PCI+AMD"), ("AMD", "1"), ("AMD_IFACE", "PCI")],
    )
    .unwrap();
    assert_eq!(spelled(&same), "PCI+AMD");
    let cli = run("", "KFD+AMD", &[("AMD_IFACE", "PCI")]).unwrap();
    assert_eq!(spelled(&cli), "KFD+AMD");
    assert_eq!(
        cli.notes[0],
        "AMD_IFACE=PCI is ignored: --dev=KFD+AMD takes precedence"
    );
}

#[test]
fn a_qualifier_without_a_device_changes_nothing_and_says_so() {
    let selection = run(
        "",
        "",
        &[("AMD_IFACE", "PCI"), ("HCQ_VISIBLE_DEVICES", "1")],
    )
    .unwrap();
    assert_eq!(selection.source, Source::Autodetect);
    assert_eq!(
        selection.notes,
        [
            "AMD_IFACE=PCI HCQ_VISIBLE_DEVICES=1: old name; use for example DEV=PCI:1+AMD: no device is \
             selected"
        ]
    );
}

#[test]
fn contradictions_name_both_sources() {
    let text = |first: &str, second: &str, what: &str| {
        format!("{first} and {second} conflict in the {what}; keep one of them")
    };
    for (env, error) in [
        (
            &[("CPU", "1"), ("AMD", "1")][..],
            text("CPU=1", "AMD=1", "device"),
        ),
        (
            &[("DEV", "CPU"), ("AMD", "1")],
            text("DEV=CPU", "AMD=1", "device"),
        ),
        (
            &[("DEV", "KFD+AMD"), ("AMD_IFACE", "PCI")],
            text("DEV=KFD+AMD", "AMD_IFACE=PCI", "interface"),
        ),
        (
            &[("NV_PTX", "1"), ("NV_NAK", "1")],
            text("NV_NAK=1", "NV_PTX=1", "renderer"),
        ),
        (
            &[("NV_PTX", "1"), ("NV_CC", "CUDA")],
            text("NV_PTX=1", "NV_CC=CUDA", "renderer"),
        ),
        (
            &[("DEV", "NV:NAK"), ("NV_PTX", "1")],
            text("DEV=NV:NAK", "NV_PTX=1", "renderer"),
        ),
        (
            &[("DEV", "PCI:0+AMD"), ("HCQ_VISIBLE_DEVICES", "1")],
            text("DEV=PCI:0+AMD", "HCQ_VISIBLE_DEVICES=1", "device numbers"),
        ),
        (
            &[("MOCKPCI", "1"), ("MOCKUSB", "1")],
            text("MOCKPCI=1", "MOCKUSB=1", "twin"),
        ),
        (
            &[("AMD", "1"), ("AMD_IFACE", "PCI"), ("MOCKUSB", "1")],
            text("AMD_IFACE=PCI", "MOCKUSB=1", "interface"),
        ),
        (
            &[("NV", "1"), ("MOCKKFD", "1")],
            text("NV=1", "MOCKKFD=1", "interface"),
        ),
        (
            &[("DEV", "PCI+AMD"), ("MOCKGPU", "1")],
            text("DEV=PCI+AMD", "MOCKGPU=1", "interface"),
        ),
    ] {
        assert_eq!(run("", "", env).unwrap_err(), error);
    }
}

#[test]
fn old_names_with_odd_values() {
    for (name, value, error) in [
        (
            "CUDA",
            "/usr/local/cuda",
            "CUDA=/usr/local/cuda: expected 0 or 1, found \"/usr/local/cuda\"; unset it if it \
             belongs to another program, and use DEV",
        ),
        (
            "AMD_IFACE",
            "KDF",
            "AMD_IFACE=KDF: expected an interface of AMD (KFD, PCI, USB, TWINKFD, TWINPCI, \
             TWINUSB), found \"KDF\"; did you mean KFD?",
        ),
        (
            "HCQ_VISIBLE_DEVICES",
            "all",
            "HCQ_VISIBLE_DEVICES=all: expected device numbers from 0 to 1023 as a list of \
             ascending ranges, found \"all\"; for example 0, 0-3 or 0,2-3",
        ),
    ] {
        assert_eq!(run("", "", &[(name, value)]).unwrap_err(), error);
    }
}

#[test]
fn strict_mode_refuses_old_names_and_shows_the_new() {
    let env = [("HCQ_STRICT_ENV", "1"), ("AMD", "1"), ("AMD_IFACE", "PCI")];
    assert_eq!(
        run("", "", &env).unwrap_err(),
        "AMD=1 AMD_IFACE=PCI: old name, rejected by HCQ_STRICT_ENV=1; use \
         DEV=PCI+AMD"
    );
    assert!(run("", "", &[("HCQ_STRICT_ENV", "0"), ("AMD", "1")]).is_ok());
    assert!(run("", "", &[("HCQ_STRICT_ENV", "1"), ("DEV", "AMD")]).is_ok());
}

/// A scheduler that restricts a job by a variable of a vendor must not be overlooked in silence.
#[test]
fn restrictions_of_vendors_are_not_overlooked() {
    let env = [
        ("ROCR_VISIBLE_DEVICES", "3"),
        ("HIP_VISIBLE_DEVICES", ""),
        ("CUDA_VISIBLE_DEVICES", "1"),
        ("NVIDIA_VISIBLE_DEVICES", "1"),
    ];
    let warnings = |dev: &str| {
        let all = env.iter().copied().chain([("DEV", dev)]);
        select(None, None, all).unwrap().warnings
    };
    assert_eq!(
        warnings("AMD"),
        [
            "ROCR_VISIBLE_DEVICES=3 is ignored: use DEV=KFD:N+AMD, with a number from `doorbell \
          devices`"
        ]
    );
    assert_eq!(
        warnings("NV"),
        [
            "CUDA_VISIBLE_DEVICES=1 is ignored: use DEV=NVK:N+NV, with a number from `doorbell \
          devices`"
        ]
    );
    for dev in [
        "CPU",
        "KFD:1+AMD",
        "TWINKFD+AMD",
        "AMD:0",
        "NV:1",
        "TWINNVK+NV",
    ] {
        assert!(warnings(dev).is_empty(), "{dev}");
    }
}

#[test]
fn near_misses_are_mentioned_and_other_peoples_variables_are_not() {
    let env: Vec<(&str, &str)> = [
        "AMD_IFCAE",
        "AM_RESTE",
        "CPU_LVM",
        "CUDA_VISIBLE_DEVICES",
        "HCQ_VISIBLE_DEVICE",
        "HCQ_WHATEVER",
        "NV_GPU",
        "NV_LIBNCCL_PACKAGE",
        "AMD_SERIALIZE_KERNEL",
        "NVIDIA_VISIBLE_DEVICES",
        "NV_IFACES",
        "ROCM_PATH",
    ]
    .map(|name| (name, "1"))
    .into();
    assert_eq!(
        run("", "", &env).unwrap().notes,
        [
            "unknown variable AMD_IFCAE; did you mean AMD_IFACE?",
            "unknown variable AM_RESTE; did you mean AMD_RESET?",
            "unknown variable CPU_LVM; did you mean CPU_LLVM?",
            "unknown variable HCQ_VISIBLE_DEVICE; did you mean HCQ_VISIBLE_DEVICES?",
            "unknown variable HCQ_WHATEVER has no effect",
            "unknown variable NV_IFACES; did you mean NV_IFACE?",
        ]
    );
}
