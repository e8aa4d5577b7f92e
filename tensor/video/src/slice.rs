//! [`SliceHeader`]: the head of a slice segment.

use crate::bits::{Bits, ceil_log2};
use crate::error::Result;
use crate::nal::Nal;
use crate::pps::Pps;
use crate::rps::ShortTermSet;
use crate::sps::Sps;

/// `slice_type`. Source: H.265, table 7-7.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the standard's names")]
pub enum SliceType {
    B,
    P,
    I,
}

/// Source: H.265, 7.3.6.1. Of a dependent segment, what is of the whole slice is its slice's.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the standard's names")]
pub struct SliceHeader {
    pub first_in_picture: bool,
    pub no_output_of_prior_pics: bool,
    pub pps: u8,
    pub dependent: bool,
    /// The number of its first tree block.
    pub address: u32,
    pub kind: SliceType,
    pub output: bool,
    pub colour_plane: u8,
    pub poc_lsb: u32,
    pub short_term: ShortTermSet,
    /// Bits of the set in this header, where it is not one of the SPS: engines skip them.
    pub short_term_bits: u32,
    /// Bits of the long-term pictures in this header.
    pub long_term_bits: u32,
    pub long_term: Vec<LongTerm>,
    pub temporal_mvp: bool,
    pub sao_luma: bool,
    pub sao_chroma: bool,
    /// `num_ref_idx_active_minus1` + 1 of both lists.
    pub num_ref_idx: [u8; 2],
    /// `list_entry`: none where a list is not modified.
    pub list_entries: [Option<Vec<u8>>; 2],
    pub mvd_l1_zero: bool,
    pub cabac_init: bool,
    pub collocated_from_l0: bool,
    pub collocated_ref_idx: u8,
    pub weights: Option<WeightTable>,
    pub max_merge_candidates: u8,
    pub qp_delta: i8,
    pub cb_qp_offset: i8,
    pub cr_qp_offset: i8,
    pub cu_chroma_qp_offset: bool,
    pub deblocking_disabled: bool,
    pub beta_offset_div2: i8,
    pub tc_offset_div2: i8,
    pub loop_filter_across_slices: bool,
    /// `entry_point_offset_minus1` + 1.
    pub entry_points: Vec<u32>,
    /// Bytes of the unit before the coded tree blocks, as they are in the stream.
    pub data_at: usize,
}

/// A long-term reference picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LongTerm {
    /// The low bits of its picture order count, or all of it less than the current one's high part: [`LongTerm::cycles`].
    pub poc_lsb: u32,
    /// `DeltaPocMsbCycleLt`: by how many cycles of the low bits it is before the current one; none where the low bits tell enough.
    pub cycles: Option<u32>,
    /// The current picture may refer to it.
    pub is_used: bool,
}

/// `pred_weight_table`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WeightTable {
    /// `luma_log2_weight_denom`.
    pub log2_luma: u8,
    /// `ChromaLog2WeightDenom`.
    pub log2_chroma: u8,
    /// Of both lists.
    pub lists: [Vec<Weights>; 2],
}

/// Of a reference picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weights {
    /// Weight and offset of luma.
    pub luma: (i16, i32),
    /// Of Cb and Cr.
    pub chroma: [(i16, i32); 2],
}

impl SliceHeader {
    /// The number of the PPS, which is needed for the rest.
    pub(crate) fn pps_of(nal: &Nal) -> Result<u32> {
        let mut bits = Bits::new(nal, nal.kind.name(), None);
        bits.flag("first_slice_segment_in_pic_flag")?;
        if nal.kind.is_irap() {
            bits.flag("no_output_of_prior_pics_flag")?;
        }
        bits.ue(63, "slice_pic_parameter_set_id")
    }

    /// Reads the head. `slice` is the one before in the picture, of which a dependent segment is.
    pub(crate) fn parse(
        bits: &mut Bits<'_>,
        nal: &Nal,
        (sps, pps): (&Sps, &Pps),
        slice: Option<&SliceHeader>,
    ) -> Result<SliceHeader> {
        let first = bits.flag("first_slice_segment_in_pic_flag")?;
        let no_output = nal.kind.is_irap() && bits.flag("no_output_of_prior_pics_flag")?;
        bits.ue(63, "slice_pic_parameter_set_id")?;
        let (mut dependent, mut address) = (false, 0);
        if !first {
            if pps.dependent_slice_segments {
                dependent = bits.flag("dependent_slice_segment_flag")?;
            }
            let (width, height) = sps.tree_blocks();
            address = bits.u(ceil_log2(width * height), "slice_segment_address")?;
            if address == 0 || address >= width * height {
                let expected = format!("above 0 and below {}", width * height);
                return Err(bits.refuse("slice_segment_address", expected, address.into()));
            }
        }
        let mut header = match (dependent, slice) {
            (false, _) => SliceHeader::blank(pps),
            (true, Some(slice)) => slice.clone(),
            (true, None) => {
                let expected = "0: no slice came before it in the picture".into();
                return Err(bits.refuse("dependent_slice_segment_flag", expected, 1));
            }
        };
        header.first_in_picture = first;
        header.no_output_of_prior_pics = no_output;
        header.dependent = dependent;
        header.address = address;
        if !dependent {
            header.independent(bits, nal, (sps, pps))?;
        }
        header.entry_points = Vec::new();
        if pps.tiles.is_some() || pps.entropy_coding_sync {
            header.entry_points(bits, (sps, pps))?;
        }
        if pps.slice_header_extension_present {
            let bytes = bits.ue(256, "slice_segment_header_extension_length")?;
            bits.skip(8 * bytes, "slice_segment_header_extension_data_byte")?;
        }
        if !bits.flag("alignment_bit_equal_to_one")? {
            return Err(bits.refuse("alignment_bit_equal_to_one", "1".into(), 0));
        }
        // byte_alignment: zeros up to the byte in which the coded tree blocks begin.
        header.data_at = nal.raw_index(bits.position().div_ceil(8));
        // Offsets of entry points are not compared with it: kvazaar writes those of the whole slice.
        if header.data_at >= nal.raw.len() {
            let expected = "coded tree blocks behind the head".into();
            return Err(bits.refuse("slice_segment_data", expected, 0));
        }
        Ok(header)
    }

    /// What slices of a picture differ in that must not. Source: H.265, 7.4.7.1.
    pub(crate) fn differs_from(&self, first: &SliceHeader) -> Option<&'static str> {
        let pairs = [
            (self.output == first.output, "pic_output_flag"),
            (self.poc_lsb == first.poc_lsb, "slice_pic_order_cnt_lsb"),
            (self.short_term == first.short_term, "st_ref_pic_set"),
            (self.long_term == first.long_term, "poc_lsb_lt"),
            (
                self.temporal_mvp == first.temporal_mvp,
                "slice_temporal_mvp_enabled_flag",
            ),
            (
                self.no_output_of_prior_pics == first.no_output_of_prior_pics,
                "no_output_of_prior_pics_flag",
            ),
        ];
        let wrong = pairs.into_iter().find(|(same, _)| !same);
        wrong.map(|(_, name)| name)
    }

    fn blank(pps: &Pps) -> SliceHeader {
        SliceHeader {
            first_in_picture: false,
            no_output_of_prior_pics: false,
            pps: pps.id,
            dependent: false,
            address: 0,
            kind: SliceType::I,
            output: true,
            colour_plane: 0,
            poc_lsb: 0,
            short_term: ShortTermSet::default(),
            short_term_bits: 0,
            long_term_bits: 0,
            long_term: Vec::new(),
            temporal_mvp: false,
            sao_luma: false,
            sao_chroma: false,
            num_ref_idx: [0; 2],
            list_entries: [None, None],
            mvd_l1_zero: false,
            cabac_init: false,
            collocated_from_l0: true,
            collocated_ref_idx: 0,
            weights: None,
            max_merge_candidates: 0,
            qp_delta: 0,
            cb_qp_offset: 0,
            cr_qp_offset: 0,
            cu_chroma_qp_offset: false,
            deblocking_disabled: pps.deblocking_disabled,
            beta_offset_div2: pps.beta_offset_div2,
            tc_offset_div2: pps.tc_offset_div2,
            loop_filter_across_slices: pps.loop_filter_across_slices,
            entry_points: Vec::new(),
            data_at: 0,
        }
    }

    /// What a slice has and a dependent segment has not.
    fn independent(
        &mut self,
        bits: &mut Bits<'_>,
        nal: &Nal,
        (sps, pps): (&Sps, &Pps),
    ) -> Result<()> {
        for _ in 0..pps.num_extra_slice_header_bits {
            bits.flag("slice_reserved_flag")?;
        }
        self.kind = match bits.ue(2, "slice_type")? {
            0 => SliceType::B,
            1 => SliceType::P,
            _ => SliceType::I,
        };
        if nal.kind.is_irap() && self.kind != SliceType::I {
            let expected = "2 (I) in a random access picture".into();
            return Err(bits.refuse("slice_type", expected, self.kind as i64));
        }
        if pps.output_flag_present {
            self.output = bits.flag("pic_output_flag")?;
        }
        if sps.separate_colour_plane {
            self.colour_plane = bits.u(2, "colour_plane_id")? as u8;
        }
        if !nal.kind.is_idr() {
            self.references(bits, sps)?;
        }
        if sps.sao {
            self.sao_luma = bits.flag("slice_sao_luma_flag")?;
            self.sao_chroma = sps.chroma_array() != 0 && bits.flag("slice_sao_chroma_flag")?;
        }
        if self.kind != SliceType::I {
            self.prediction(bits, (sps, pps))?;
        }
        self.quantization(bits, (sps, pps))?;
        self.filters(bits, pps)
    }

    /// Picture order count and reference picture set.
    fn references(&mut self, bits: &mut Bits<'_>, sps: &Sps) -> Result<()> {
        self.poc_lsb = bits.u(sps.log2_max_poc_lsb.into(), "slice_pic_order_cnt_lsb")?;
        let sets = &sps.short_term_sets;
        if !bits.flag("short_term_ref_pic_set_sps_flag")? {
            let start = bits.position();
            self.short_term = ShortTermSet::parse(bits, sets, true)?;
            self.short_term_bits = (bits.position() - start) as u32;
        } else if sets.is_empty() {
            let expected = "0: the SPS has no set".into();
            return Err(bits.refuse("short_term_ref_pic_set_sps_flag", expected, 1));
        } else {
            let mut index = 0;
            if sets.len() > 1 {
                index =
                    bits.u(ceil_log2(sets.len() as u32), "short_term_ref_pic_set_idx")? as usize;
            }
            let Some(set) = sets.get(index) else {
                let expected = format!("below {}", sets.len());
                return Err(bits.refuse("short_term_ref_pic_set_idx", expected, index as i64));
            };
            self.short_term = set.clone();
        }
        if sps.long_term_present {
            let start = bits.position();
            self.long_term(bits, sps)?;
            self.long_term_bits = (bits.position() - start) as u32;
        }
        let count = self.short_term.count() + self.long_term.len();
        let room = sps.highest_order().buffering as usize - 1;
        if count > room {
            let expected = format!("at most {room} reference pictures (sps_max_dec_pic_buffering)");
            return Err(bits.refuse("NumDeltaPocs", expected, count as i64));
        }
        if sps.temporal_mvp {
            self.temporal_mvp = bits.flag("slice_temporal_mvp_enabled_flag")?;
        }
        Ok(())
    }

    fn long_term(&mut self, bits: &mut Bits<'_>, sps: &Sps) -> Result<()> {
        let known = sps.long_term.len() as u32;
        let by_index = match known {
            0 => 0,
            _ => bits.ue(known.min(16), "num_long_term_sps")?,
        };
        let own = bits.ue(16, "num_long_term_pics")?;
        let mut cycles = 0;
        for i in 0..by_index + own {
            let (poc_lsb, is_used) = if i < by_index {
                let mut index = 0;
                if known > 1 {
                    index = bits.u(ceil_log2(known), "lt_idx_sps")? as usize;
                }
                let Some(&picture) = sps.long_term.get(index) else {
                    let expected = format!("below {known}");
                    return Err(bits.refuse("lt_idx_sps", expected, index as i64));
                };
                picture
            } else {
                let lsb = bits.u(sps.log2_max_poc_lsb.into(), "poc_lsb_lt")?;
                (lsb, bits.flag("used_by_curr_pic_lt_flag")?)
            };
            let present = bits.flag("delta_poc_msb_present_flag")?;
            let mut delta = 0;
            if present {
                delta = bits.ue(1 << 28, "delta_poc_msb_cycle_lt")?;
            }
            // Equation 7-52: within each of the two kinds, cycles add up.
            cycles = match i == 0 || i == by_index {
                true => delta,
                false => u32::saturating_add(cycles, delta),
            };
            self.long_term.push(LongTerm {
                poc_lsb,
                cycles: present.then_some(cycles),
                is_used,
            });
        }
        Ok(())
    }

    /// `NumPicTotalCurr`: pictures that the current one may refer to.
    pub fn used_references(&self) -> usize {
        let short = self.short_term.before.iter().chain(&self.short_term.after);
        short.filter(|delta| delta.is_used).count()
            + self
                .long_term
                .iter()
                .filter(|picture| picture.is_used)
                .count()
    }

    fn prediction(&mut self, bits: &mut Bits<'_>, (sps, pps): (&Sps, &Pps)) -> Result<()> {
        let is_b = self.kind == SliceType::B;
        self.num_ref_idx = pps.num_ref_idx_default;
        if bits.flag("num_ref_idx_active_override_flag")? {
            self.num_ref_idx[0] = bits.ue(14, "num_ref_idx_l0_active_minus1")? as u8 + 1;
            if is_b {
                self.num_ref_idx[1] = bits.ue(14, "num_ref_idx_l1_active_minus1")? as u8 + 1;
            }
        }
        if !is_b {
            self.num_ref_idx[1] = 0;
        }
        let used = self.used_references();
        if used == 0 {
            let expected = "a picture that a P or B slice refers to".into();
            return Err(bits.refuse("NumPicTotalCurr", expected, 0));
        }
        if pps.lists_modification_present && used > 1 {
            let names = [
                ("ref_pic_list_modification_flag_l0", "list_entry_l0"),
                ("ref_pic_list_modification_flag_l1", "list_entry_l1"),
            ];
            for (list, (flag, entry)) in names.into_iter().take(1 + usize::from(is_b)).enumerate() {
                self.list_entries[list] = self.entries(bits, (flag, entry), (list, used))?;
            }
        }
        if is_b {
            self.mvd_l1_zero = bits.flag("mvd_l1_zero_flag")?;
        }
        if pps.cabac_init_present {
            self.cabac_init = bits.flag("cabac_init_flag")?;
        }
        if self.temporal_mvp {
            if is_b {
                self.collocated_from_l0 = bits.flag("collocated_from_l0_flag")?;
            }
            let most = self.num_ref_idx[usize::from(!self.collocated_from_l0)] - 1;
            if most > 0 {
                self.collocated_ref_idx = bits.ue(most.into(), "collocated_ref_idx")? as u8;
            }
        }
        if pps.weighted_pred && !is_b || pps.weighted_bipred && is_b {
            self.weights = Some(self.weight_table(bits, sps)?);
        }
        self.max_merge_candidates = 5 - bits.ue(4, "five_minus_max_num_merge_cand")? as u8;
        Ok(())
    }

    fn entries(
        &self,
        bits: &mut Bits<'_>,
        (flag, entry): (&'static str, &'static str),
        (list, used): (usize, usize),
    ) -> Result<Option<Vec<u8>>> {
        if !bits.flag(flag)? {
            return Ok(None);
        }
        let mut entries = Vec::new();
        for _ in 0..self.num_ref_idx[list] {
            let index = bits.u(ceil_log2(used as u32), entry)?;
            if index as usize >= used {
                return Err(bits.refuse(entry, format!("below {used}"), index.into()));
            }
            entries.push(index as u8);
        }
        Ok(Some(entries))
    }

    fn quantization(&mut self, bits: &mut Bits<'_>, (sps, pps): (&Sps, &Pps)) -> Result<()> {
        let init = i32::from(pps.init_qp);
        let least = -6 * (i32::from(sps.bit_depth_luma) - 8);
        self.qp_delta = bits.se(least - init, 51 - init, "slice_qp_delta")? as i8;
        if pps.slice_chroma_qp_offsets_present {
            self.cb_qp_offset = bits.se(-12, 12, "slice_cb_qp_offset")? as i8;
            self.cr_qp_offset = bits.se(-12, 12, "slice_cr_qp_offset")? as i8;
        }
        if pps.chroma_offsets.is_some() {
            self.cu_chroma_qp_offset = bits.flag("cu_chroma_qp_offset_enabled_flag")?;
        }
        Ok(())
    }

    fn filters(&mut self, bits: &mut Bits<'_>, pps: &Pps) -> Result<()> {
        let overrides = pps.deblocking_override && bits.flag("deblocking_filter_override_flag")?;
        if overrides {
            self.deblocking_disabled = bits.flag("slice_deblocking_filter_disabled_flag")?;
            if !self.deblocking_disabled {
                self.beta_offset_div2 = bits.se(-6, 6, "slice_beta_offset_div2")? as i8;
                self.tc_offset_div2 = bits.se(-6, 6, "slice_tc_offset_div2")? as i8;
            }
        }
        let filters = self.sao_luma || self.sao_chroma || !self.deblocking_disabled;
        if pps.loop_filter_across_slices && filters {
            self.loop_filter_across_slices =
                bits.flag("slice_loop_filter_across_slices_enabled_flag")?;
        }
        Ok(())
    }

    /// Source: H.265, 7.4.7.1, num_entry_point_offsets.
    fn entry_points(&mut self, bits: &mut Bits<'_>, (sps, pps): (&Sps, &Pps)) -> Result<()> {
        let (_, height) = sps.tree_blocks();
        let most = match (&pps.tiles, pps.entropy_coding_sync) {
            (None, _) => height - 1,
            (Some(tiles), false) => tiles.columns * tiles.rows - 1,
            (Some(tiles), true) => tiles.columns * height - 1,
        };
        let count = bits.ue(most, "num_entry_point_offsets")?;
        if count > 0 {
            let length = bits.ue(31, "offset_len_minus1")? + 1;
            for _ in 0..count {
                let minus1 = bits.u(length, "entry_point_offset_minus1")?;
                self.entry_points.push(minus1.saturating_add(1));
            }
        }
        Ok(())
    }

    /// Source: H.265, 7.3.6.3 and 7.4.7.3.
    fn weight_table(&self, bits: &mut Bits<'_>, sps: &Sps) -> Result<WeightTable> {
        let has_chroma = sps.chroma_array() != 0;
        let log2_luma = bits.ue(7, "luma_log2_weight_denom")? as i32;
        let mut log2_chroma = log2_luma;
        if has_chroma {
            log2_chroma += bits.se(-log2_luma, 7 - log2_luma, "delta_chroma_log2_weight_denom")?;
        }
        let names = [
            [
                "luma_weight_l0_flag",
                "chroma_weight_l0_flag",
                "delta_luma_weight_l0",
                "luma_offset_l0",
                "delta_chroma_weight_l0",
                "delta_chroma_offset_l0",
            ],
            [
                "luma_weight_l1_flag",
                "chroma_weight_l1_flag",
                "delta_luma_weight_l1",
                "luma_offset_l1",
                "delta_chroma_weight_l1",
                "delta_chroma_offset_l1",
            ],
        ];
        let mut lists = [Vec::new(), Vec::new()];
        for list in 0..1 + usize::from(self.kind == SliceType::B) {
            let count = self.num_ref_idx[list];
            let names = names[list];
            let denominators = (log2_luma, log2_chroma);
            lists[list] = weights(bits, sps, (count, has_chroma), denominators, names)?;
        }
        Ok(WeightTable {
            log2_luma: log2_luma as u8,
            log2_chroma: log2_chroma as u8,
            lists,
        })
    }
}

/// Of one list.
fn weights(
    bits: &mut Bits<'_>,
    sps: &Sps,
    (count, has_chroma): (u8, bool),
    (log2_luma, log2_chroma): (i32, i32),
    names: [&'static str; 6],
) -> Result<Vec<Weights>> {
    let [
        luma_flag,
        chroma_flag,
        luma_weight,
        luma_offset,
        chroma_weight,
        chroma_offset,
    ] = names;
    // WpOffsetHalfRange and WpOffsetBdShift.
    let (half_luma, half_chroma) = match sps.range.high_precision_offsets {
        true => (
            1 << (sps.bit_depth_luma - 1),
            1 << (sps.bit_depth_chroma - 1),
        ),
        false => (128, 128),
    };
    let mut luma = Vec::new();
    for _ in 0..count {
        luma.push(bits.flag(luma_flag)?);
    }
    let mut chroma = vec![false; count.into()];
    if has_chroma {
        for flag in &mut chroma {
            *flag = bits.flag(chroma_flag)?;
        }
    }
    let mut all = Vec::new();
    for (luma, chroma) in luma.into_iter().zip(chroma) {
        let one = (1 << log2_chroma) as i16;
        let mut weights = Weights {
            luma: ((1 << log2_luma) as i16, 0),
            chroma: [(one, 0); 2],
        };
        if luma {
            weights.luma.0 += bits.se(-128, 127, luma_weight)? as i16;
            weights.luma.1 = bits.se(-half_luma, half_luma - 1, luma_offset)?;
        }
        if chroma {
            for (weight, offset) in &mut weights.chroma {
                *weight += bits.se(-128, 127, chroma_weight)? as i16;
                let delta = bits.se(-4 * half_chroma, 4 * half_chroma - 1, chroma_offset)?;
                // Equation 7-56.
                let mean = (half_chroma * i32::from(*weight)) >> log2_chroma;
                *offset = (half_chroma + delta - mean).clamp(-half_chroma, half_chroma - 1);
            }
        }
        all.push(weights);
    }
    Ok(all)
}
