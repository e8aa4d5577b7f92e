//! [`Pps`]: the picture parameter set.

use crate::Element;
use crate::bits::Bits;
use crate::error::{Error, Result};
use crate::nal::Nal;
use crate::scaling::ScalingLists;
use crate::sps::Sps;

/// Source: H.265, 7.3.2.3. Names are the standard's, with values as they are meant and not as they are coded.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the standard's names")]
pub struct Pps {
    pub id: u8,
    pub sps: u8,
    /// Where its unit is, for messages.
    pub at: u64,
    pub dependent_slice_segments: bool,
    pub output_flag_present: bool,
    pub num_extra_slice_header_bits: u8,
    pub sign_data_hiding: bool,
    pub cabac_init_present: bool,
    pub num_ref_idx_default: [u8; 2],
    pub init_qp: i8,
    pub constrained_intra_pred: bool,
    pub transform_skip: bool,
    /// `diff_cu_qp_delta_depth`; none where `cu_qp_delta_enabled_flag` is off.
    pub cu_qp_delta_depth: Option<u8>,
    pub cb_qp_offset: i8,
    pub cr_qp_offset: i8,
    pub slice_chroma_qp_offsets_present: bool,
    pub weighted_pred: bool,
    pub weighted_bipred: bool,
    pub transquant_bypass: bool,
    pub tiles: Option<Tiles>,
    pub entropy_coding_sync: bool,
    pub loop_filter_across_slices: bool,
    pub deblocking_control_present: bool,
    pub deblocking_override: bool,
    pub deblocking_disabled: bool,
    pub beta_offset_div2: i8,
    pub tc_offset_div2: i8,
    pub scaling: Option<ScalingLists>,
    pub lists_modification_present: bool,
    pub log2_parallel_merge_level: u8,
    pub slice_header_extension_present: bool,
    /// `log2_max_transform_skip_block_size_minus2` + 2.
    pub log2_max_transform_skip: u8,
    pub cross_component_prediction: bool,
    pub chroma_offsets: Option<ChromaOffsets>,
    pub log2_sao_offset_scale: [u8; 2],
}

/// How a picture is cut into tiles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tiles {
    /// Columns and rows.
    pub columns: u32,
    /// Rows.
    pub rows: u32,
    /// Widths of all columns but the last one and heights of all rows but the last one, in tree blocks; none where they are
    /// as equal as can be.
    pub sizes: Option<(Vec<u32>, Vec<u32>)>,
    /// `loop_filter_across_tiles_enabled_flag`.
    pub loop_filter_across: bool,
}

/// `chroma_qp_offset_list`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChromaOffsets {
    /// `diff_cu_chroma_qp_offset_depth`.
    pub depth: u8,
    /// Of Cb and Cr.
    pub offsets: Vec<(i8, i8)>,
}

/// Columns and rows of tiles, at most. Source: H.265, table A.8, level 6.2.
const COLUMNS: u32 = 20;
const ROWS: u32 = 22;

impl Pps {
    /// The number of a set that may be damaged behind it.
    pub(crate) fn id_of(nal: &Nal) -> Result<u8> {
        let mut bits = Bits::new(nal, "PPS", None);
        Ok(bits.ue(63, "pps_pic_parameter_set_id")? as u8)
    }

    /// Reads a unit of kind PPS.
    ///
    /// # Errors
    /// What is cut, damaged, or of an extension for other layers, depth or screen content.
    pub fn parse(nal: &Nal, log: Option<&mut Vec<Element>>) -> Result<Pps> {
        let bits = &mut Bits::new(nal, "PPS", log);
        let mut pps = Pps::head(bits, nal.at)?;
        if bits.flag("tiles_enabled_flag")? {
            pps.entropy_coding_sync = bits.flag("entropy_coding_sync_enabled_flag")?;
            pps.tiles = Some(Tiles::parse(bits)?);
        } else {
            pps.entropy_coding_sync = bits.flag("entropy_coding_sync_enabled_flag")?;
        }
        pps.loop_filter_across_slices = bits.flag("pps_loop_filter_across_slices_enabled_flag")?;
        pps.deblocking(bits)?;
        if bits.flag("pps_scaling_list_data_present_flag")? {
            pps.scaling = Some(ScalingLists::parse(bits)?);
        }
        pps.lists_modification_present = bits.flag("lists_modification_present_flag")?;
        pps.log2_parallel_merge_level = bits.ue(4, "log2_parallel_merge_level_minus2")? as u8 + 2;
        pps.slice_header_extension_present =
            bits.flag("slice_segment_header_extension_present_flag")?;
        pps.extensions(bits)?;
        Ok(pps)
    }

    fn head(bits: &mut Bits<'_>, at: u64) -> Result<Pps> {
        let id = bits.ue(63, "pps_pic_parameter_set_id")? as u8;
        let sps = bits.ue(15, "pps_seq_parameter_set_id")? as u8;
        let dependent_slice_segments = bits.flag("dependent_slice_segments_enabled_flag")?;
        let output_flag_present = bits.flag("output_flag_present_flag")?;
        let num_extra_slice_header_bits = bits.u(3, "num_extra_slice_header_bits")? as u8;
        let sign_data_hiding = bits.flag("sign_data_hiding_enabled_flag")?;
        let cabac_init_present = bits.flag("cabac_init_present_flag")?;
        let num_ref_idx_default = [
            bits.ue(14, "num_ref_idx_l0_default_active_minus1")? as u8 + 1,
            bits.ue(14, "num_ref_idx_l1_default_active_minus1")? as u8 + 1,
        ];
        // -(26 + QpBdOffsetY) to 25; the SPS has the bit depth.
        let init_qp = bits.se(-74, 25, "init_qp_minus26")? as i8 + 26;
        let constrained_intra_pred = bits.flag("constrained_intra_pred_flag")?;
        let transform_skip = bits.flag("transform_skip_enabled_flag")?;
        let cu_qp_delta_depth = match bits.flag("cu_qp_delta_enabled_flag")? {
            true => Some(bits.ue(3, "diff_cu_qp_delta_depth")? as u8),
            false => None,
        };
        Ok(Pps {
            id,
            sps,
            at,
            dependent_slice_segments,
            output_flag_present,
            num_extra_slice_header_bits,
            sign_data_hiding,
            cabac_init_present,
            num_ref_idx_default,
            init_qp,
            constrained_intra_pred,
            transform_skip,
            cu_qp_delta_depth,
            cb_qp_offset: bits.se(-12, 12, "pps_cb_qp_offset")? as i8,
            cr_qp_offset: bits.se(-12, 12, "pps_cr_qp_offset")? as i8,
            slice_chroma_qp_offsets_present: bits
                .flag("pps_slice_chroma_qp_offsets_present_flag")?,
            weighted_pred: bits.flag("weighted_pred_flag")?,
            weighted_bipred: bits.flag("weighted_bipred_flag")?,
            transquant_bypass: bits.flag("transquant_bypass_enabled_flag")?,
            tiles: None,
            entropy_coding_sync: false,
            loop_filter_across_slices: false,
            deblocking_control_present: false,
            deblocking_override: false,
            deblocking_disabled: false,
            beta_offset_div2: 0,
            tc_offset_div2: 0,
            scaling: None,
            lists_modification_present: false,
            log2_parallel_merge_level: 2,
            slice_header_extension_present: false,
            log2_max_transform_skip: 2,
            cross_component_prediction: false,
            chroma_offsets: None,
            log2_sao_offset_scale: [0; 2],
        })
    }

    fn deblocking(&mut self, bits: &mut Bits<'_>) -> Result<()> {
        self.deblocking_control_present = bits.flag("deblocking_filter_control_present_flag")?;
        if self.deblocking_control_present {
            self.deblocking_override = bits.flag("deblocking_filter_override_enabled_flag")?;
            self.deblocking_disabled = bits.flag("pps_deblocking_filter_disabled_flag")?;
            if !self.deblocking_disabled {
                self.beta_offset_div2 = bits.se(-6, 6, "pps_beta_offset_div2")? as i8;
                self.tc_offset_div2 = bits.se(-6, 6, "pps_tc_offset_div2")? as i8;
            }
        }
        Ok(())
    }

    fn extensions(&mut self, bits: &mut Bits<'_>) -> Result<()> {
        if !bits.flag("pps_extension_present_flag")? {
            return Ok(());
        }
        let range = bits.flag("pps_range_extension_flag")?;
        let multilayer = bits.flag("pps_multilayer_extension_flag")?;
        let depth = bits.flag("pps_3d_extension_flag")?;
        let screen = bits.flag("pps_scc_extension_flag")?;
        bits.u(4, "pps_extension_4bits")?;
        if range {
            self.range(bits)?;
        }
        if multilayer {
            return Err(bits.unsupported("HEVC of several layers (pps_multilayer_extension)"));
        }
        if depth {
            return Err(bits.unsupported("HEVC with depth (pps_3d_extension)"));
        }
        if screen {
            return Err(bits.unsupported("HEVC screen content coding (pps_scc_extension)"));
        }
        Ok(())
    }

    fn range(&mut self, bits: &mut Bits<'_>) -> Result<()> {
        if self.transform_skip {
            let minus2 = bits.ue(3, "log2_max_transform_skip_block_size_minus2")?;
            self.log2_max_transform_skip = minus2 as u8 + 2;
        }
        self.cross_component_prediction = bits.flag("cross_component_prediction_enabled_flag")?;
        if bits.flag("chroma_qp_offset_list_enabled_flag")? {
            let depth = bits.ue(3, "diff_cu_chroma_qp_offset_depth")? as u8;
            let mut offsets = Vec::new();
            for _ in 0..=bits.ue(5, "chroma_qp_offset_list_len_minus1")? {
                let cb = bits.se(-12, 12, "cb_qp_offset_list")? as i8;
                offsets.push((cb, bits.se(-12, 12, "cr_qp_offset_list")? as i8));
            }
            self.chroma_offsets = Some(ChromaOffsets { depth, offsets });
        }
        self.log2_sao_offset_scale = [
            bits.ue(6, "log2_sao_offset_scale_luma")? as u8,
            bits.ue(6, "log2_sao_offset_scale_chroma")? as u8,
        ];
        Ok(())
    }

    /// Whether it can be used with an SPS: what one alone does not show.
    ///
    /// # Errors
    /// [`Error::Corrupt`] for tiles that do not fit the picture, and values out of the range that the SPS gives.
    pub fn check(&self, sps: &Sps) -> Result<()> {
        let corrupt = |element, expected: String, found: i64| {
            Err(Error::Corrupt {
                unit: "PPS",
                element,
                expected,
                found,
                at: self.at,
            })
        };
        if let Some(tiles) = &self.tiles {
            let (width, height) = sps.tree_blocks();
            let (columns, rows) = tiles.least();
            if columns > width || rows > height {
                let expected = format!("tiles of {width}x{height} tree blocks in all");
                return match columns > width {
                    true => corrupt("columns of tiles", expected, columns.into()),
                    false => corrupt("rows of tiles", expected, rows.into()),
                };
            }
        }
        let least = -6 * (i32::from(sps.bit_depth_luma) - 8);
        if i32::from(self.init_qp) < least {
            let found = i64::from(self.init_qp) - 26;
            return corrupt("init_qp_minus26", format!("at least {}", least - 26), found);
        }
        let depth = sps.log2_coding_tree_block - sps.log2_min_coding_block;
        if let Some(found) = self.cu_qp_delta_depth.filter(|&found| found > depth) {
            return corrupt(
                "diff_cu_qp_delta_depth",
                format!("at most {depth}"),
                found.into(),
            );
        }
        if self.log2_max_transform_skip > sps.log2_max_transform_block {
            let expected = format!("at most {}", sps.log2_max_transform_block - 2);
            let found = i64::from(self.log2_max_transform_skip) - 2;
            return corrupt("log2_max_transform_skip_block_size_minus2", expected, found);
        }
        let chroma = self.chroma_offsets.as_ref().map(|offsets| offsets.depth);
        if let Some(found) = chroma.filter(|&found| found > depth) {
            let element = "diff_cu_chroma_qp_offset_depth";
            return corrupt(element, format!("at most {depth}"), found.into());
        }
        if self.cross_component_prediction && sps.chroma_array() != 3 {
            let expected = "0 but for 4:4:4".into();
            return corrupt("cross_component_prediction_enabled_flag", expected, 1);
        }
        let depths = [sps.bit_depth_luma, sps.bit_depth_chroma];
        for (found, depth) in self.log2_sao_offset_scale.into_iter().zip(depths) {
            let most = depth.saturating_sub(10);
            if found > most {
                let expected = format!("at most {most}");
                return corrupt("log2_sao_offset_scale", expected, found.into());
            }
        }
        if self.log2_parallel_merge_level > sps.log2_coding_tree_block {
            let expected = format!("at most {}", sps.log2_coding_tree_block - 2);
            let found = i64::from(self.log2_parallel_merge_level) - 2;
            return corrupt("log2_parallel_merge_level_minus2", expected, found);
        }
        Ok(())
    }
}

impl Tiles {
    fn parse(bits: &mut Bits<'_>) -> Result<Tiles> {
        let columns = bits.ue(COLUMNS - 1, "num_tile_columns_minus1")? + 1;
        let rows = bits.ue(ROWS - 1, "num_tile_rows_minus1")? + 1;
        if columns == 1 && rows == 1 {
            let expected = "more than one tile where tiles are on".into();
            return Err(bits.refuse("num_tile_columns_minus1", expected, 0));
        }
        let mut sizes = None;
        if !bits.flag("uniform_spacing_flag")? {
            let mut read = |count: u32, name| {
                let all = (1..count).map(|_| bits.ue(0x7fff, name).map(|minus1| minus1 + 1));
                all.collect::<Result<Vec<u32>>>()
            };
            let widths = read(columns, "column_width_minus1")?;
            sizes = Some((widths, read(rows, "row_height_minus1")?));
        }
        Ok(Tiles {
            columns,
            rows,
            sizes,
            loop_filter_across: bits.flag("loop_filter_across_tiles_enabled_flag")?,
        })
    }

    /// Tree blocks of a picture that has these tiles, at least: width and height.
    fn least(&self) -> (u32, u32) {
        match &self.sizes {
            None => (self.columns, self.rows),
            Some((widths, heights)) => (
                widths.iter().sum::<u32>() + 1,
                heights.iter().sum::<u32>() + 1,
            ),
        }
    }

    /// Widths of columns and heights of rows, in tree blocks, of a picture of `width` times `height` of them.
    ///
    /// Source: H.265, equations 6-3 and 6-4.
    pub fn sizes(&self, (width, height): (u32, u32)) -> (Vec<u32>, Vec<u32>) {
        let even = |count: u32, total: u32| -> Vec<u32> {
            let edge = |i: u32| (u64::from(i) * u64::from(total) / u64::from(count)) as u32;
            (0..count).map(|i| edge(i + 1) - edge(i)).collect()
        };
        let rest = |sizes: &[u32], total: u32| -> Vec<u32> {
            let last = total.saturating_sub(sizes.iter().sum());
            sizes.iter().copied().chain([last]).collect()
        };
        match &self.sizes {
            None => (even(self.columns, width), even(self.rows, height)),
            Some((widths, heights)) => (rest(widths, width), rest(heights, height)),
        }
    }
}
