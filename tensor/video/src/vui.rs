//! [`Vui`]: how pictures are to be shown.

use crate::bits::Bits;
use crate::error::Result;
use crate::hrd::Hrd;
use crate::window::Window;

/// `vui_parameters`. Source: H.265, E.2.1.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Vui {
    /// Width and height of a sample, as a ratio; none where it is not said.
    pub sample_aspect: Option<(u16, u16)>,
    /// The colours; none where nothing is said.
    pub colour: Option<Colour>,
    /// `chroma_sample_loc_type_top_field`, `chroma_sample_loc_type_bottom_field`.
    pub chroma_location: Option<(u8, u8)>,
    /// `field_seq_flag`: pictures are fields.
    pub is_fields: bool,
    /// `frame_field_info_present_flag`: picture timing SEI tells how to show a picture.
    pub has_field_info: bool,
    /// The part to show, in units of chroma samples, within the conformance window.
    pub display: Option<Window>,
    /// `vui_num_units_in_tick`, `vui_time_scale`: a picture takes the first by the second, in seconds.
    pub timing: Option<(u32, u32)>,
    /// What a buffer model needs.
    pub hrd: Option<Hrd>,
}

/// Source: H.265, tables E.3 to E.5 (the numbers of ITU-T H.273).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Colour {
    /// `video_full_range_flag`.
    pub is_full_range: bool,
    /// `colour_primaries`; 2 where it is not said.
    pub primaries: u8,
    /// `transfer_characteristics`; 2 where it is not said.
    pub transfer: u8,
    /// `matrix_coeffs`; 2 where it is not said.
    pub matrix: u8,
}

/// Table E.1: ratios of `aspect_ratio_idc` from 1.
const ASPECTS: [(u16, u16); 16] = [
    (1, 1),
    (12, 11),
    (10, 11),
    (16, 11),
    (40, 33),
    (24, 11),
    (20, 11),
    (32, 11),
    (80, 33),
    (18, 11),
    (15, 11),
    (64, 33),
    (160, 99),
    (4, 3),
    (3, 2),
    (2, 1),
];

impl Vui {
    pub(crate) fn parse(bits: &mut Bits<'_>, max_sub_layers_minus1: u32) -> Result<Vui> {
        let mut vui = Vui {
            sample_aspect: Self::aspect(bits)?,
            ..Vui::default()
        };
        if bits.flag("overscan_info_present_flag")? {
            bits.flag("overscan_appropriate_flag")?;
        }
        vui.colour = Self::colour(bits)?;
        if bits.flag("chroma_loc_info_present_flag")? {
            let top = bits.ue(5, "chroma_sample_loc_type_top_field")? as u8;
            let bottom = bits.ue(5, "chroma_sample_loc_type_bottom_field")? as u8;
            vui.chroma_location = Some((top, bottom));
        }
        bits.flag("neutral_chroma_indication_flag")?;
        vui.is_fields = bits.flag("field_seq_flag")?;
        vui.has_field_info = bits.flag("frame_field_info_present_flag")?;
        if bits.flag("default_display_window_flag")? {
            vui.display = Some(Window::parse(
                bits,
                [
                    "def_disp_win_left_offset",
                    "def_disp_win_right_offset",
                    "def_disp_win_top_offset",
                    "def_disp_win_bottom_offset",
                ],
            )?);
        }
        if bits.flag("vui_timing_info_present_flag")? {
            let tick = bits.u(32, "vui_num_units_in_tick")?;
            vui.timing = Some((tick, bits.u(32, "vui_time_scale")?));
            if bits.flag("vui_poc_proportional_to_timing_flag")? {
                bits.ue(u32::MAX - 1, "vui_num_ticks_poc_diff_one_minus1")?;
            }
            if bits.flag("vui_hrd_parameters_present_flag")? {
                vui.hrd = Some(Hrd::parse(bits, None, max_sub_layers_minus1)?);
            }
        }
        Self::restrictions(bits)?;
        Ok(vui)
    }

    fn aspect(bits: &mut Bits<'_>) -> Result<Option<(u16, u16)>> {
        if !bits.flag("aspect_ratio_info_present_flag")? {
            return Ok(None);
        }
        match bits.u(8, "aspect_ratio_idc")? {
            255 => {
                let width = bits.u(16, "sar_width")? as u16;
                Ok(Some((width, bits.u(16, "sar_height")? as u16)))
            }
            0 => Ok(None),
            known => Ok(ASPECTS.get(known as usize - 1).copied()),
        }
    }

    fn colour(bits: &mut Bits<'_>) -> Result<Option<Colour>> {
        if !bits.flag("video_signal_type_present_flag")? {
            return Ok(None);
        }
        bits.u(3, "video_format")?;
        let mut colour = Colour {
            is_full_range: bits.flag("video_full_range_flag")?,
            primaries: 2,
            transfer: 2,
            matrix: 2,
        };
        if bits.flag("colour_description_present_flag")? {
            colour.primaries = bits.u(8, "colour_primaries")? as u8;
            colour.transfer = bits.u(8, "transfer_characteristics")? as u8;
            colour.matrix = bits.u(8, "matrix_coeffs")? as u8;
        }
        Ok(Some(colour))
    }

    fn restrictions(bits: &mut Bits<'_>) -> Result<()> {
        if bits.flag("bitstream_restriction_flag")? {
            bits.flag("tiles_fixed_structure_flag")?;
            bits.flag("motion_vectors_over_pic_boundaries_flag")?;
            bits.flag("restricted_ref_pic_lists_flag")?;
            bits.ue(4095, "min_spatial_segmentation_idc")?;
            bits.ue(16, "max_bytes_per_pic_denom")?;
            bits.ue(16, "max_bits_per_min_cu_denom")?;
            bits.ue(15, "log2_max_mv_length_horizontal")?;
            bits.ue(15, "log2_max_mv_length_vertical")?;
        }
        Ok(())
    }
}
