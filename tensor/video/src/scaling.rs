//! [`ScalingLists`]: the weights by which coefficients are scaled.

use crate::bits::Bits;
use crate::error::Result;

/// `ScalingList`, in the order of the up-right diagonal scan, and the DC weights of the two large sizes.
///
/// Source: H.265, 7.3.4 and 7.4.5.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScalingLists {
    /// 4x4: intra Y, Cb, Cr, inter Y, Cb, Cr.
    pub size_4: [[u8; 16]; 6],
    /// 8x8, in the same order.
    pub size_8: [[u8; 64]; 6],
    /// 16x16, of which each weight is for 2x2 coefficients.
    pub size_16: [[u8; 64]; 6],
    /// 32x32, of which each weight is for 4x4 coefficients: intra Y, inter Y.
    pub size_32: [[u8; 64]; 2],
    /// The DC weight of 16x16.
    pub dc_16: [u8; 6],
    /// The DC weight of 32x32.
    pub dc_32: [u8; 2],
}

/// Table 7-6, of intra and of inter.
const INTRA: [u8; 64] = [
    16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 17, 16, 17, 16, 17, 18, 17, 18, 18, 17, 18, 21, 19, 20,
    21, 20, 19, 21, 24, 22, 22, 24, 24, 22, 22, 24, 25, 25, 27, 30, 27, 25, 25, 29, 31, 35, 35, 31,
    29, 36, 41, 44, 41, 36, 47, 54, 54, 47, 65, 70, 65, 88, 88, 115,
];
const INTER: [u8; 64] = [
    16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 17, 17, 17, 17, 17, 18, 18, 18, 18, 18, 18, 20, 20, 20,
    20, 20, 20, 20, 24, 24, 24, 24, 24, 24, 24, 24, 25, 25, 25, 25, 25, 25, 25, 28, 28, 28, 28, 28,
    28, 33, 33, 33, 33, 33, 41, 41, 41, 41, 54, 54, 54, 71, 71, 91,
];

impl Default for ScalingLists {
    /// Tables 7-5 and 7-6.
    fn default() -> ScalingLists {
        let six = [INTRA, INTRA, INTRA, INTER, INTER, INTER];
        ScalingLists {
            size_4: [[16; 16]; 6],
            size_8: six,
            size_16: six,
            size_32: [INTRA, INTER],
            dc_16: [16; 6],
            dc_32: [16; 2],
        }
    }
}

/// A list of one size, as it is read: 16 or 64 weights.
#[derive(Clone)]
struct List {
    weights: Vec<u8>,
    dc: u8,
}

impl ScalingLists {
    pub(crate) fn parse(bits: &mut Bits<'_>) -> Result<ScalingLists> {
        let mut all = ScalingLists::default();
        for size in 0..4 {
            // Of 32x32 there is luma alone: matrices 0 and 3.
            let step = if size == 3 { 3 } else { 1 };
            for matrix in (0..6).step_by(step) {
                let list = all.list(bits, size, matrix, step)?;
                all.put(size, matrix, &list);
            }
        }
        Ok(all)
    }

    fn list(&self, bits: &mut Bits<'_>, size: usize, matrix: usize, step: usize) -> Result<List> {
        if !bits.flag("scaling_list_pred_mode_flag")? {
            let most = (matrix / step) as u32;
            let delta = bits.ue(most, "scaling_list_pred_matrix_id_delta")? as usize;
            return Ok(match delta {
                0 => ScalingLists::default().get(size, matrix),
                _ => self.get(size, matrix - delta * step),
            });
        }
        let (mut next, mut dc) = (8, 16);
        if size > 1 {
            next = bits.se(-7, 247, "scaling_list_dc_coef_minus8")? + 8;
            dc = next as u8;
        }
        let mut weights = Vec::new();
        for _ in 0..if size == 0 { 16 } else { 64 } {
            let delta = bits.se(-128, 127, "scaling_list_delta_coef")?;
            next = (next + delta + 256) % 256;
            if next == 0 {
                return Err(bits.refuse("ScalingList", "a weight above 0".into(), 0));
            }
            weights.push(next as u8);
        }
        Ok(List { weights, dc })
    }

    fn get(&self, size: usize, matrix: usize) -> List {
        let (weights, dc) = match size {
            0 => (self.size_4[matrix].to_vec(), 16),
            1 => (self.size_8[matrix].to_vec(), 16),
            2 => (self.size_16[matrix].to_vec(), self.dc_16[matrix]),
            _ => (self.size_32[matrix / 3].to_vec(), self.dc_32[matrix / 3]),
        };
        List { weights, dc }
    }

    fn put(&mut self, size: usize, matrix: usize, list: &List) {
        let into: &mut [u8] = match size {
            0 => &mut self.size_4[matrix],
            1 => &mut self.size_8[matrix],
            2 => &mut self.size_16[matrix],
            _ => &mut self.size_32[matrix / 3],
        };
        into.copy_from_slice(&list.weights);
        match size {
            2 => self.dc_16[matrix] = list.dc,
            3 => self.dc_32[matrix / 3] = list.dc,
            _ => {}
        }
    }
}
