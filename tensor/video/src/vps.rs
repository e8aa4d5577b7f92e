//! [`Vps`]: the video parameter set.

use crate::bits::Bits;
use crate::error::Result;
use crate::hrd::Hrd;
use crate::nal::Nal;
use crate::profile::Profile;
use crate::sps::SubLayerOrder;
use crate::{Element, bits};

/// Source: H.265, 7.3.2.1. Its extension describes layers that are not decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vps {
    /// `vps_video_parameter_set_id`.
    pub id: u8,
    /// `vps_max_sub_layers_minus1` + 1.
    pub sub_layers: u8,
    /// Of the base layer.
    pub profile: Profile,
    /// Of each sub-layer.
    pub order: Vec<SubLayerOrder>,
    /// `vps_num_units_in_tick`, `vps_time_scale`.
    pub timing: Option<(u32, u32)>,
}

impl Vps {
    /// Reads a unit of kind VPS.
    ///
    /// # Errors
    /// What is cut or damaged.
    pub fn parse(nal: &Nal, log: Option<&mut Vec<Element>>) -> Result<Vps> {
        let bits = &mut bits::Bits::new(nal, "VPS", log);
        let id = bits.u(4, "vps_video_parameter_set_id")? as u8;
        bits.flag("vps_base_layer_internal_flag")?;
        bits.flag("vps_base_layer_available_flag")?;
        bits.u(6, "vps_max_layers_minus1")?;
        let max_sub_layers_minus1 = bits.u(3, "vps_max_sub_layers_minus1")?;
        if max_sub_layers_minus1 > 6 {
            return Err(bits.refuse("vps_max_sub_layers_minus1", "at most 6".into(), 7));
        }
        bits.flag("vps_temporal_id_nesting_flag")?;
        bits.u(16, "vps_reserved_0xffff_16bits")?;
        let profile = Profile::parse(bits, max_sub_layers_minus1)?;
        let order = SubLayerOrder::parse(
            bits,
            max_sub_layers_minus1,
            [
                "vps_sub_layer_ordering_info_present_flag",
                "vps_max_dec_pic_buffering_minus1",
                "vps_max_num_reorder_pics",
                "vps_max_latency_increase_plus1",
            ],
        )?;
        let max_layer_id = bits.u(6, "vps_max_layer_id")?;
        let sets_minus1 = bits.ue(1023, "vps_num_layer_sets_minus1")?;
        for _ in 0..sets_minus1 {
            for _ in 0..=max_layer_id {
                bits.flag("layer_id_included_flag")?;
            }
        }
        let timing = Self::timing(bits, sets_minus1, max_sub_layers_minus1)?;
        bits.flag("vps_extension_flag")?;
        Ok(Vps {
            id,
            sub_layers: max_sub_layers_minus1 as u8 + 1,
            profile,
            order,
            timing,
        })
    }

    fn timing(
        bits: &mut Bits<'_>,
        sets_minus1: u32,
        max_sub_layers_minus1: u32,
    ) -> Result<Option<(u32, u32)>> {
        if !bits.flag("vps_timing_info_present_flag")? {
            return Ok(None);
        }
        let tick = bits.u(32, "vps_num_units_in_tick")?;
        let scale = bits.u(32, "vps_time_scale")?;
        if bits.flag("vps_poc_proportional_to_timing_flag")? {
            bits.ue(u32::MAX - 1, "vps_num_ticks_poc_diff_one_minus1")?;
        }
        let mut last: Option<Hrd> = None;
        for _ in 0..bits.ue(sets_minus1 + 1, "vps_num_hrd_parameters")? {
            bits.ue(sets_minus1, "hrd_layer_set_idx")?;
            let own = last.is_none() || bits.flag("cprms_present_flag")?;
            let same = if own { None } else { last.as_ref() };
            last = Some(Hrd::parse(bits, same, max_sub_layers_minus1)?);
        }
        Ok(Some((tick, scale)))
    }
}
