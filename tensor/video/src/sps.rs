//! [`Sps`]: the sequence parameter set.

use crate::Element;
use crate::bits::Bits;
use crate::error::Result;
use crate::nal::Nal;
use crate::profile::Profile;
use crate::rps::ShortTermSet;
use crate::scaling::ScalingLists;
use crate::vui::Vui;
use crate::window::{SIDE, Window};

/// Source: H.265, 7.3.2.2. Names are the standard's, with sizes as they are meant and not as they are coded.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the standard's names")]
pub struct Sps {
    pub id: u8,
    pub vps: u8,
    pub profile: Profile,
    /// `chroma_format_idc`: 0 is luma alone, 1 is 4:2:0, 2 is 4:2:2, 3 is 4:4:4.
    pub chroma_format: u8,
    pub separate_colour_plane: bool,
    /// Luma samples.
    pub width: u32,
    pub height: u32,
    /// What of a picture is output, in units of chroma samples.
    pub conformance: Window,
    pub bit_depth_luma: u8,
    pub bit_depth_chroma: u8,
    pub log2_max_poc_lsb: u8,
    /// Of each sub-layer.
    pub order: Vec<SubLayerOrder>,
    pub log2_min_coding_block: u8,
    pub log2_coding_tree_block: u8,
    pub log2_min_transform_block: u8,
    pub log2_max_transform_block: u8,
    pub max_transform_hierarchy_depth_inter: u8,
    pub max_transform_hierarchy_depth_intra: u8,
    /// None where scaling lists are off.
    pub scaling: Option<ScalingLists>,
    /// Whether the SPS brings lists of its own.
    pub has_scaling_lists: bool,
    pub amp: bool,
    pub sao: bool,
    pub pcm: Option<Pcm>,
    pub short_term_sets: Vec<ShortTermSet>,
    pub long_term_present: bool,
    /// `lt_ref_pic_poc_lsb_sps`, and whether the current picture may refer to it.
    pub long_term: Vec<(u32, bool)>,
    pub temporal_mvp: bool,
    pub strong_intra_smoothing: bool,
    pub vui: Option<Vui>,
    pub range: SpsRange,
}

/// How pictures of a sub-layer are buffered and put into order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SubLayerOrder {
    /// `max_dec_pic_buffering_minus1` + 1: pictures of the buffer, with the current one.
    pub buffering: u32,
    /// `max_num_reorder_pics`.
    pub reorder: u32,
    /// `max_latency_increase_plus1`.
    pub latency_plus1: u32,
}

/// Samples that are not coded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the standard's names")]
pub struct Pcm {
    pub bit_depth_luma: u8,
    pub bit_depth_chroma: u8,
    pub log2_min_block: u8,
    pub log2_max_block: u8,
    pub loop_filter_disabled: bool,
}

/// `sps_range_extension`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the standard's names")]
pub struct SpsRange {
    pub transform_skip_rotation: bool,
    pub transform_skip_context: bool,
    pub implicit_rdpcm: bool,
    pub explicit_rdpcm: bool,
    pub extended_precision: bool,
    pub intra_smoothing_disabled: bool,
    pub high_precision_offsets: bool,
    pub persistent_rice: bool,
    pub cabac_bypass_alignment: bool,
}

impl SubLayerOrder {
    pub(crate) fn parse(
        bits: &mut Bits<'_>,
        max_sub_layers_minus1: u32,
        names: [&'static str; 4],
    ) -> Result<Vec<SubLayerOrder>> {
        let all = bits.flag(names[0])?;
        let first = if all { 0 } else { max_sub_layers_minus1 };
        let mut order = Vec::new();
        for _ in first..=max_sub_layers_minus1 {
            let buffering = bits.ue(15, names[1])? + 1;
            order.push(SubLayerOrder {
                buffering,
                reorder: bits.ue(buffering - 1, names[2])?,
                latency_plus1: bits.ue(u32::MAX - 1, names[3])?,
            });
        }
        // What is said once is of all.
        while order.len() <= max_sub_layers_minus1 as usize {
            order.insert(0, order[0]);
        }
        Ok(order)
    }
}

/// Luma samples of a picture, at most. Source: H.265, table A.8, MaxLumaPs of level 6.2.
const SAMPLES: u64 = 35_651_584;

impl Sps {
    /// The number of a set that may be damaged behind it.
    pub(crate) fn id_of(nal: &Nal) -> Result<u8> {
        let mut bits = Bits::new(nal, "SPS", None);
        bits.u(4, "sps_video_parameter_set_id")?;
        let max_sub_layers_minus1 = bits.u(3, "sps_max_sub_layers_minus1")?;
        bits.flag("sps_temporal_id_nesting_flag")?;
        Profile::parse(&mut bits, max_sub_layers_minus1)?;
        Ok(bits.ue(15, "sps_seq_parameter_set_id")? as u8)
    }

    /// Reads a unit of kind SPS of the base layer.
    ///
    /// # Errors
    /// What is cut, damaged, or of an extension for other layers, depth or screen content.
    pub fn parse(nal: &Nal, log: Option<&mut Vec<Element>>) -> Result<Sps> {
        let bits = &mut Bits::new(nal, "SPS", log);
        let vps = bits.u(4, "sps_video_parameter_set_id")? as u8;
        let max_sub_layers_minus1 = bits.u(3, "sps_max_sub_layers_minus1")?;
        if max_sub_layers_minus1 > 6 {
            return Err(bits.refuse("sps_max_sub_layers_minus1", "at most 6".into(), 7));
        }
        bits.flag("sps_temporal_id_nesting_flag")?;
        let profile = Profile::parse(bits, max_sub_layers_minus1)?;
        let mut sps = Sps::format(bits, (vps, profile))?;
        sps.order = SubLayerOrder::parse(
            bits,
            max_sub_layers_minus1,
            [
                "sps_sub_layer_ordering_info_present_flag",
                "sps_max_dec_pic_buffering_minus1",
                "sps_max_num_reorder_pics",
                "sps_max_latency_increase_plus1",
            ],
        )?;
        sps.blocks(bits)?;
        sps.tools(bits)?;
        sps.references(bits)?;
        sps.temporal_mvp = bits.flag("sps_temporal_mvp_enabled_flag")?;
        sps.strong_intra_smoothing = bits.flag("strong_intra_smoothing_enabled_flag")?;
        if bits.flag("vui_parameters_present_flag")? {
            sps.vui = Some(Vui::parse(bits, max_sub_layers_minus1)?);
        }
        sps.extensions(bits)?;
        Ok(sps)
    }

    /// Up to the length of picture order counts.
    fn format(bits: &mut Bits<'_>, (vps, profile): (u8, Profile)) -> Result<Sps> {
        let id = bits.ue(15, "sps_seq_parameter_set_id")? as u8;
        let chroma_format = bits.ue(3, "chroma_format_idc")? as u8;
        let separate_colour_plane =
            chroma_format == 3 && bits.flag("separate_colour_plane_flag")?;
        if separate_colour_plane {
            return Err(bits.unsupported("HEVC of separate colour planes"));
        }
        let width = bits.ue(SIDE, "pic_width_in_luma_samples")?;
        let height = bits.ue(SIDE, "pic_height_in_luma_samples")?;
        let mut conformance = Window::default();
        if bits.flag("conformance_window_flag")? {
            conformance = Window::parse(
                bits,
                [
                    "conf_win_left_offset",
                    "conf_win_right_offset",
                    "conf_win_top_offset",
                    "conf_win_bottom_offset",
                ],
            )?;
        }
        Ok(Sps {
            id,
            vps,
            profile,
            chroma_format,
            separate_colour_plane,
            width,
            height,
            conformance,
            bit_depth_luma: bits.ue(8, "bit_depth_luma_minus8")? as u8 + 8,
            bit_depth_chroma: bits.ue(8, "bit_depth_chroma_minus8")? as u8 + 8,
            log2_max_poc_lsb: bits.ue(12, "log2_max_pic_order_cnt_lsb_minus4")? as u8 + 4,
            order: Vec::new(),
            log2_min_coding_block: 0,
            log2_coding_tree_block: 0,
            log2_min_transform_block: 0,
            log2_max_transform_block: 0,
            max_transform_hierarchy_depth_inter: 0,
            max_transform_hierarchy_depth_intra: 0,
            scaling: None,
            has_scaling_lists: false,
            amp: false,
            sao: false,
            pcm: None,
            short_term_sets: Vec::new(),
            long_term_present: false,
            long_term: Vec::new(),
            temporal_mvp: false,
            strong_intra_smoothing: false,
            vui: None,
            range: SpsRange::default(),
        })
    }

    /// The sizes of blocks, and of the picture in them.
    fn blocks(&mut self, bits: &mut Bits<'_>) -> Result<()> {
        let min = bits.ue(3, "log2_min_luma_coding_block_size_minus3")? + 3;
        let tree = min + bits.ue(6 - min, "log2_diff_max_min_luma_coding_block_size")?;
        if tree < 4 {
            let expected = "a coding tree block of 16 to 64 samples".into();
            return Err(bits.refuse("CtbLog2SizeY", expected, tree.into()));
        }
        // The smallest transform is smaller than the smallest coding block, the largest no larger than 32 or a tree block.
        let smallest = bits.ue(min - 3, "log2_min_luma_transform_block_size_minus2")? + 2;
        let most = tree.min(5) - smallest;
        let largest = smallest + bits.ue(most, "log2_diff_max_min_luma_transform_block_size")?;
        let depth = tree - smallest;
        self.max_transform_hierarchy_depth_inter =
            bits.ue(depth, "max_transform_hierarchy_depth_inter")? as u8;
        self.max_transform_hierarchy_depth_intra =
            bits.ue(depth, "max_transform_hierarchy_depth_intra")? as u8;
        self.log2_min_coding_block = min as u8;
        self.log2_coding_tree_block = tree as u8;
        self.log2_min_transform_block = smallest as u8;
        self.log2_max_transform_block = largest as u8;
        let sides = [
            ("pic_width_in_luma_samples", self.width),
            ("pic_height_in_luma_samples", self.height),
        ];
        for (name, side) in sides {
            if side == 0 || !side.is_multiple_of(1 << min) {
                let expected = format!("a multiple of {}, above 0", 1 << min);
                return Err(bits.refuse(name, expected, side.into()));
            }
        }
        if u64::from(self.width) * u64::from(self.height) > SAMPLES {
            let (width, height) = (self.width, self.height);
            let feature = format!("a picture of {width}x{height} samples, more than of level 6.2,");
            return Err(bits.unsupported(feature));
        }
        let (width, height) = self.cropped_units();
        let Window {
            left,
            right,
            top,
            bottom,
        } = self.conformance;
        if left + right >= width || top + bottom >= height {
            let expected = format!("less than {width} and {height} chroma samples");
            let found = (left + right).max(top + bottom).into();
            return Err(bits.refuse("conf_win_offset", expected, found));
        }
        Ok(())
    }

    fn tools(&mut self, bits: &mut Bits<'_>) -> Result<()> {
        if bits.flag("scaling_list_enabled_flag")? {
            self.has_scaling_lists = bits.flag("sps_scaling_list_data_present_flag")?;
            self.scaling = Some(match self.has_scaling_lists {
                true => ScalingLists::parse(bits)?,
                false => ScalingLists::default(),
            });
        }
        self.amp = bits.flag("amp_enabled_flag")?;
        self.sao = bits.flag("sample_adaptive_offset_enabled_flag")?;
        if bits.flag("pcm_enabled_flag")? {
            self.pcm = Some(self.pcm(bits)?);
        }
        Ok(())
    }

    fn pcm(&self, bits: &mut Bits<'_>) -> Result<Pcm> {
        let luma = bits.u(4, "pcm_sample_bit_depth_luma_minus1")? as u8 + 1;
        let chroma = bits.u(4, "pcm_sample_bit_depth_chroma_minus1")? as u8 + 1;
        if luma > self.bit_depth_luma || chroma > self.bit_depth_chroma {
            let expected = format!(
                "at most {} and {}",
                self.bit_depth_luma, self.bit_depth_chroma
            );
            let found = luma.max(chroma).into();
            return Err(bits.refuse("PcmBitDepth", expected, found));
        }
        let min = bits.ue(2, "log2_min_pcm_luma_coding_block_size_minus3")? as u8 + 3;
        let least = self.log2_min_coding_block.min(5);
        let most = self.log2_coding_tree_block.min(5);
        if min < least || min > most {
            let expected = format!("{} to {}", least - 3, most - 3);
            let name = "log2_min_pcm_luma_coding_block_size_minus3";
            return Err(bits.refuse(name, expected, i64::from(min) - 3));
        }
        let name = "log2_diff_max_min_pcm_luma_coding_block_size";
        let more = bits.ue((most - min).into(), name)? as u8;
        Ok(Pcm {
            bit_depth_luma: luma,
            bit_depth_chroma: chroma,
            log2_min_block: min,
            log2_max_block: min + more,
            loop_filter_disabled: bits.flag("pcm_loop_filter_disabled_flag")?,
        })
    }

    fn references(&mut self, bits: &mut Bits<'_>) -> Result<()> {
        for _ in 0..bits.ue(64, "num_short_term_ref_pic_sets")? {
            let set = ShortTermSet::parse(bits, &self.short_term_sets, false)?;
            self.short_term_sets.push(set);
        }
        self.long_term_present = bits.flag("long_term_ref_pics_present_flag")?;
        if self.long_term_present {
            for _ in 0..bits.ue(32, "num_long_term_ref_pics_sps")? {
                let lsb = bits.u(self.log2_max_poc_lsb.into(), "lt_ref_pic_poc_lsb_sps")?;
                let is_used = bits.flag("used_by_curr_pic_lt_sps_flag")?;
                self.long_term.push((lsb, is_used));
            }
        }
        Ok(())
    }

    fn extensions(&mut self, bits: &mut Bits<'_>) -> Result<()> {
        if !bits.flag("sps_extension_present_flag")? {
            return Ok(());
        }
        let range = bits.flag("sps_range_extension_flag")?;
        let multilayer = bits.flag("sps_multilayer_extension_flag")?;
        let depth = bits.flag("sps_3d_extension_flag")?;
        let screen = bits.flag("sps_scc_extension_flag")?;
        bits.u(4, "sps_extension_4bits")?;
        if range {
            self.range = SpsRange {
                transform_skip_rotation: bits.flag("transform_skip_rotation_enabled_flag")?,
                transform_skip_context: bits.flag("transform_skip_context_enabled_flag")?,
                implicit_rdpcm: bits.flag("implicit_rdpcm_enabled_flag")?,
                explicit_rdpcm: bits.flag("explicit_rdpcm_enabled_flag")?,
                extended_precision: bits.flag("extended_precision_processing_flag")?,
                intra_smoothing_disabled: bits.flag("intra_smoothing_disabled_flag")?,
                high_precision_offsets: bits.flag("high_precision_offsets_enabled_flag")?,
                persistent_rice: bits.flag("persistent_rice_adaptation_enabled_flag")?,
                cabac_bypass_alignment: bits.flag("cabac_bypass_alignment_enabled_flag")?,
            };
        }
        if multilayer {
            bits.flag("inter_view_mv_vert_constraint_flag")?;
        }
        if depth {
            return Err(bits.unsupported("HEVC with depth (sps_3d_extension)"));
        }
        if screen {
            return Err(bits.unsupported("HEVC screen content coding (sps_scc_extension)"));
        }
        Ok(())
    }

    /// Width and height in the units of windows: chroma samples, or luma samples without chroma.
    fn cropped_units(&self) -> (u32, u32) {
        let (x, y) = self.subsampling();
        (self.width / x, self.height / y)
    }

    /// `ChromaArrayType`.
    pub fn chroma_array(&self) -> u8 {
        if self.separate_colour_plane {
            0
        } else {
            self.chroma_format
        }
    }

    /// `SubWidthC`, `SubHeightC`: luma samples of a chroma sample.
    pub fn subsampling(&self) -> (u32, u32) {
        match self.chroma_format {
            1 => (2, 2),
            2 => (2, 1),
            _ => (1, 1),
        }
    }

    /// What is shown: left and top, width and height, luma samples.
    pub fn shown(&self) -> (u32, u32, u32, u32) {
        let (x, y) = self.subsampling();
        let window = self.conformance;
        let left = window.left * x;
        let top = window.top * y;
        let width = self.width - left - window.right * x;
        let height = self.height - top - window.bottom * y;
        (left, top, width, height)
    }

    /// `PicWidthInCtbsY`, `PicHeightInCtbsY`.
    pub fn tree_blocks(&self) -> (u32, u32) {
        let side = 1 << self.log2_coding_tree_block;
        (self.width.div_ceil(side), self.height.div_ceil(side))
    }

    /// Of the highest sub-layer.
    pub fn highest_order(&self) -> SubLayerOrder {
        self.order.last().copied().unwrap_or_default()
    }
}
