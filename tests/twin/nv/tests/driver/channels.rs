//! Mistakes with channels and doorbells.

use drivers_spec::nv::{class, status};
use twin::fires::fires;

use super::bench::{Bench, RING, RING_BYTES};

#[test]
fn channels_are_in_groups_of_their_engine_with_a_ring() {
    let invalid = status::NV_ERR_INVALID_ARGUMENT;
    let bench = Bench::with_space("chip=ga102");
    let mut group = class::ChannelGroupAlloc {
        engine_type: class::engine::COPY9,
        ..Default::default()
    };
    let class = class::KEPLER_CHANNEL_GROUP_A.number;
    let (status, _) = bench.alloc(bench.device, class, 0, Some(&mut group));
    assert_eq!(status, invalid);
    fires("RM-GROUP-ENGINE").only(&bench.broken());

    let bench = Bench::with_group("");
    let mut params = bench.channel_params();
    params.h_va_space = bench.space;
    assert_eq!(bench.channel(&mut params).0, invalid);
    fires("RM-CHANNEL-SPACE").only(&bench.broken());
    let bench = Bench::with_group("");
    let mut params = bench.channel_params();
    let class = bench.machine.config.chips[0].facts().channel.number;
    let (status, _) = bench.alloc(bench.device, class, 0, Some(&mut params));
    assert_eq!(status, invalid);
    fires("RM-CHANNEL-SPACE").only(&bench.broken());

    let bench = Bench::with_group("");
    assert_eq!(bench.channel(&mut bench.channel_params()).0, 0);
    let mut params = bench.channel_params();
    params.h_context_share = 0;
    assert_eq!(bench.channel(&mut params).0, invalid);
    fires("RM-CHANNEL-SHARE").only(&bench.broken());

    let bench = Bench::with_group("");
    let mut params = bench.channel_params();
    params.engine_type = class::engine::COPY0;
    assert_eq!(bench.channel(&mut params).0, invalid);
    fires("RM-CHANNEL-ENGINE").only(&bench.broken());

    for offset in [0x1_0100, RING_BYTES - 0x100, RING_BYTES] {
        let bench = Bench::with_group("");
        let mut params = bench.channel_params();
        params.userd_offset[0] = offset;
        assert_eq!(bench.channel(&mut params).0, 0);
        fires("RM-CHANNEL-USERD").only(&bench.broken());
    }

    for (config, expected) in [
        ("chip=ad102", 0),
        ("chip=h100", status::NV_ERR_NOT_SUPPORTED),
        ("chip=gb202", status::NV_ERR_NOT_SUPPORTED),
    ] {
        let bench = Bench::with_group(config);
        let mut params = bench.channel_params();
        params.h_userd_memory[0] = bench.system(0x1000);
        params.userd_offset[0] = 0;
        assert_eq!(bench.channel(&mut params).0, expected, "{config}");
        match expected {
            0 => assert!(bench.broken().is_empty()),
            _ => fires("RM-CHANNEL-USERD-PLACE").only(&bench.broken()),
        }
    }

    let bench = Bench::with_group("");
    let mut params = bench.channel_params();
    params.gp_fifo_entries = 1000;
    assert_eq!(bench.channel(&mut params).0, invalid);
    fires("RM-CHANNEL-RING").only(&bench.broken());
    let bench = Bench::with_group("");
    let mut params = bench.channel_params();
    params.gp_fifo_offset = RING + RING_BYTES - 0x1000;
    assert_eq!(bench.channel(&mut params).0, 0);
    fires("RM-CHANNEL-RING").only(&bench.broken());
}

#[test]
fn engines_have_objects_in_their_channels() {
    let bench = Bench::with_space("");
    let mut group = class::ChannelGroupAlloc {
        engine_type: class::engine::COPY0 + 2,
        h_va_space: bench.space,
        ..Default::default()
    };
    let group = bench.must(
        bench.device,
        class::KEPLER_CHANNEL_GROUP_A,
        Some(&mut group),
    );
    let ring = bench.local(RING_BYTES);
    assert_eq!(bench.range(RING, RING_BYTES), 0);
    assert_eq!(bench.map(RING, RING_BYTES, ring), 0);
    let mut params = class::ChannelAlloc {
        gp_fifo_offset: RING,
        gp_fifo_entries: 512,
        ..Default::default()
    };
    let channel = bench.must(group, class::AMPERE_CHANNEL_GPFIFO_A, Some(&mut params));
    let mut copy = class::DmaCopyAlloc {
        version: 1,
        engine_type: class::engine::COPY0 + 2,
    };
    bench.must(channel, class::AMPERE_DMA_COPY_B, Some(&mut copy));
    // A channel of copies may be scheduled without UVM's buffers.
    assert_eq!(bench.schedule(channel), 0);
    assert!(bench.broken().is_empty(), "{:?}", bench.broken());
    let compute = class::ADA_COMPUTE_A.number;
    let (status, _) = bench.alloc(channel, compute, 0, None::<&mut class::GrAlloc>);
    assert_eq!(status, status::NV_ERR_INVALID_CLASS);
    fires("RM-ENGINE-OBJECT").only(&bench.broken());
    copy.engine_type = class::engine::COPY0;
    bench.must(channel, class::AMPERE_DMA_COPY_B, Some(&mut copy));
    assert_eq!(bench.broken(), ["RM-ENGINE-OBJECT"; 2]);
}

#[test]
fn channels_are_registered_before_they_are_scheduled() {
    let bench = Bench::with_group("");
    let (_, channel) = bench.channel(&mut bench.channel_params());
    assert_eq!(bench.schedule(bench.group), status::NV_ERR_INVALID_STATE);
    fires("RM-SCHEDULE-REGISTERED").only(&bench.broken());
    assert_eq!(bench.register_channel(channel, 0x20_0000_0000), 0);
    assert_eq!(bench.schedule(bench.group), 0);
}
