//! [`ShortTermSet`]: which pictures before and after the current one are kept, by their distance.

use crate::bits::Bits;
use crate::error::Result;

/// A picture by its distance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delta {
    /// Its picture order count less the current one's; not 0.
    pub poc: i32,
    /// The current picture may refer to it; else later ones may.
    pub is_used: bool,
}

/// `st_ref_pic_set`, as derived. Source: H.265, 7.4.8.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShortTermSet {
    /// Before the current one, the nearest first.
    pub before: Vec<Delta>,
    /// Behind it, the nearest first.
    pub after: Vec<Delta>,
}

/// Pictures of a set, at most: `sps_max_dec_pic_buffering_minus1` is below 16.
const MOST: usize = 16;

impl ShortTermSet {
    /// `NumDeltaPocs`.
    pub fn count(&self) -> usize {
        self.before.len() + self.after.len()
    }

    /// The `index`-th set; `others` are those before it in the SPS, of which there are `index`, or all where a slice has its own.
    pub(crate) fn parse(
        bits: &mut Bits<'_>,
        others: &[ShortTermSet],
        in_slice: bool,
    ) -> Result<ShortTermSet> {
        if !others.is_empty() && bits.flag("inter_ref_pic_set_prediction_flag")? {
            return ShortTermSet::predicted(bits, others, in_slice);
        }
        let negative = bits.ue(MOST as u32, "num_negative_pics")?;
        let positive = bits.ue(MOST as u32 - negative, "num_positive_pics")?;
        let mut set = ShortTermSet::default();
        let mut poc = 0;
        for _ in 0..negative {
            poc -= bits.ue(0x7fff, "delta_poc_s0_minus1")? as i32 + 1;
            let is_used = bits.flag("used_by_curr_pic_s0_flag")?;
            set.before.push(Delta { poc, is_used });
        }
        poc = 0;
        for _ in 0..positive {
            poc += bits.ue(0x7fff, "delta_poc_s1_minus1")? as i32 + 1;
            let is_used = bits.flag("used_by_curr_pic_s1_flag")?;
            set.after.push(Delta { poc, is_used });
        }
        Ok(set)
    }

    /// Equations 7-59 to 7-62: the pictures of another set, moved by one distance, and that distance itself.
    fn predicted(
        bits: &mut Bits<'_>,
        others: &[ShortTermSet],
        in_slice: bool,
    ) -> Result<ShortTermSet> {
        let back = match in_slice {
            true => bits.ue(others.len() as u32 - 1, "delta_idx_minus1")? as usize + 1,
            false => 1,
        };
        let reference = &others[others.len() - back];
        let is_negative = bits.flag("delta_rps_sign")?;
        let distance = bits.ue(0x7fff, "abs_delta_rps_minus1")? as i32 + 1;
        let moved = if is_negative { -distance } else { distance };
        // In the order of flags: the set's pictures before, those after, and the distance itself.
        let old = reference.before.iter().chain(&reference.after);
        let candidates = old.map(|delta| delta.poc + moved).chain([moved]);
        let mut kept = Vec::new();
        for poc in candidates.collect::<Vec<_>>() {
            let is_used = bits.flag("used_by_curr_pic_flag")?;
            let is_kept = is_used || bits.flag("use_delta_flag")?;
            if is_kept && poc != 0 {
                kept.push(Delta { poc, is_used });
            }
        }
        let (mut before, mut after): (Vec<Delta>, Vec<Delta>) =
            kept.into_iter().partition(|delta| delta.poc < 0);
        before.sort_by_key(|delta| -delta.poc);
        after.sort_by_key(|delta| delta.poc);
        let count = before.len() + after.len();
        let twice = |set: &[Delta]| set.windows(2).any(|two| two[0].poc == two[1].poc);
        if count > MOST || twice(&before) || twice(&after) {
            let expected = format!("at most {MOST} pictures, each once");
            return Err(bits.refuse("st_ref_pic_set", expected, count as i64));
        }
        Ok(ShortTermSet { before, after })
    }
}
