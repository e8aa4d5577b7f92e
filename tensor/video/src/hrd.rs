//! [`Hrd`]: parameters of the hypothetical reference decoder. Decoding needs one of them: the length of fields in SEI.

use crate::bits::Bits;
use crate::error::Result;

/// Source: H.265, E.2.2.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hrd {
    /// `nal_hrd_parameters_present_flag`.
    pub nal: bool,
    /// `vcl_hrd_parameters_present_flag`.
    pub vcl: bool,
    /// `au_cpb_removal_delay_length_minus1` + 1, bits.
    pub cpb_removal_delay_bits: u8,
    /// `dpb_output_delay_length_minus1` + 1, bits.
    pub dpb_output_delay_bits: u8,
    /// `sub_pic_hrd_params_present_flag`.
    pub sub_pictures: bool,
    /// Of each sub-layer.
    pub sub_layers: Vec<SubLayerHrd>,
}

/// Of a sub-layer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SubLayerHrd {
    /// `elemental_duration_in_tc_minus1` + 1: ticks of a picture, where pictures come at a fixed rate.
    pub ticks: Option<u32>,
    /// `low_delay_hrd_flag`.
    pub is_low_delay: bool,
    /// `cpb_cnt_minus1` + 1.
    pub buffers: u32,
}

/// `u(32)` less two: what `ue(v)` may have at most.
const UE32: u32 = u32::MAX - 1;

impl Hrd {
    /// `same`: the one before, whose common part it has; none where it has its own.
    pub(crate) fn parse(
        bits: &mut Bits<'_>,
        same: Option<&Hrd>,
        max_sub_layers_minus1: u32,
    ) -> Result<Hrd> {
        let mut hrd = Hrd::default();
        match same {
            Some(same) => {
                hrd = same.clone();
                hrd.sub_layers.clear();
            }
            None => {
                hrd.nal = bits.flag("nal_hrd_parameters_present_flag")?;
                hrd.vcl = bits.flag("vcl_hrd_parameters_present_flag")?;
                if hrd.nal || hrd.vcl {
                    hrd.common(bits)?;
                }
            }
        }
        for _ in 0..=max_sub_layers_minus1 {
            let sub_layer = hrd.sub_layer(bits)?;
            hrd.sub_layers.push(sub_layer);
        }
        Ok(hrd)
    }

    fn common(&mut self, bits: &mut Bits<'_>) -> Result<()> {
        self.sub_pictures = bits.flag("sub_pic_hrd_params_present_flag")?;
        if self.sub_pictures {
            bits.u(8, "tick_divisor_minus2")?;
            bits.u(5, "du_cpb_removal_delay_increment_length_minus1")?;
            bits.flag("sub_pic_cpb_params_in_pic_timing_sei_flag")?;
            bits.u(5, "dpb_output_delay_du_length_minus1")?;
        }
        bits.u(4, "bit_rate_scale")?;
        bits.u(4, "cpb_size_scale")?;
        if self.sub_pictures {
            bits.u(4, "cpb_size_du_scale")?;
        }
        bits.u(5, "initial_cpb_removal_delay_length_minus1")?;
        self.cpb_removal_delay_bits = bits.u(5, "au_cpb_removal_delay_length_minus1")? as u8 + 1;
        self.dpb_output_delay_bits = bits.u(5, "dpb_output_delay_length_minus1")? as u8 + 1;
        Ok(())
    }

    fn sub_layer(&self, bits: &mut Bits<'_>) -> Result<SubLayerHrd> {
        let mut sub_layer = SubLayerHrd {
            buffers: 1,
            ..SubLayerHrd::default()
        };
        let mut fixed = bits.flag("fixed_pic_rate_general_flag")?;
        if !fixed {
            fixed = bits.flag("fixed_pic_rate_within_cvs_flag")?;
        }
        if fixed {
            sub_layer.ticks = Some(bits.ue(2047, "elemental_duration_in_tc_minus1")? + 1);
        } else {
            sub_layer.is_low_delay = bits.flag("low_delay_hrd_flag")?;
        }
        if !sub_layer.is_low_delay {
            sub_layer.buffers = bits.ue(31, "cpb_cnt_minus1")? + 1;
        }
        for _ in 0..usize::from(self.nal) + usize::from(self.vcl) {
            for _ in 0..sub_layer.buffers {
                bits.ue(UE32, "bit_rate_value_minus1")?;
                bits.ue(UE32, "cpb_size_value_minus1")?;
                if self.sub_pictures {
                    bits.ue(UE32, "cpb_size_du_value_minus1")?;
                    bits.ue(UE32, "bit_rate_du_value_minus1")?;
                }
                bits.flag("cbr_flag")?;
            }
        }
        Ok(sub_layer)
    }
}
