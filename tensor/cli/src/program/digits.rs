//! The handwritten digits that ship with the program, split into a training and a held-out part.

use tensor::io::npz;

use crate::program::error::Error;

/// The data of `tensor/cli/data`, see the README there.
const FILE: &[u8] = include_bytes!("../../data/digits.npz");

/// Pixels of one image, 8 rows of 8.
pub const PIXELS: usize = 64;

/// Images with their labels.
pub struct Set {
    /// Ink per pixel, 0 to 1, one image after the other.
    pub images: Vec<f32>,
    /// 0 to 9.
    pub labels: Vec<i32>,
}

impl Set {
    /// Number of images.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// The images at these positions, in this order.
    pub fn pick(&self, positions: &[usize]) -> Set {
        let mut images = Vec::with_capacity(positions.len() * PIXELS);
        for &p in positions {
            images.extend_from_slice(self.image(p));
        }
        Set {
            images,
            labels: positions.iter().map(|&p| self.labels[p]).collect(),
        }
    }

    /// The pixels of one image.
    pub fn image(&self, i: usize) -> &[f32] {
        &self.images[i * PIXELS..(i + 1) * PIXELS]
    }
}

/// A shuffle that is the same everywhere (Fisher-Yates over a 64-bit LCG, Knuth's constants).
pub struct Shuffle(u64);

impl Shuffle {
    /// Starts from a seed.
    pub fn new(seed: u64) -> Self {
        Shuffle(seed)
    }

    /// A permutation of `0..n`.
    pub fn order(&mut self, n: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..n).collect();
        for i in (1..n).rev() {
            self.0 = self
                .0
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            order.swap(i, ((self.0 >> 33) % (i as u64 + 1)) as usize);
        }
        order
    }
}

/// Reads the data and holds a fifth out: `(training, held out)`. The seed fixes the split.
pub fn load(seed: u64) -> Result<(Set, Set), Error> {
    let damaged = |why: String| {
        Error::Check(format!(
            "the built-in digits are damaged: {why}; rebuild \
                                                      the program"
        ))
    };
    let mut file =
        npz::File::from_bytes("digits.npz", FILE.to_vec()).map_err(|e| damaged(e.to_string()))?;
    let mut bytes = |name: &str, count: usize| {
        let array = file.array(name).map_err(|e| damaged(e.to_string()))?;
        if array.data.len() == count {
            Ok(array.data)
        } else {
            Err(damaged(format!(
                "expected {count} bytes of {name}, found {}",
                array.data.len()
            )))
        }
    };
    let labels = bytes("labels", 1797)?;
    let images = bytes("images", 1797 * PIXELS)?;
    let all = Set {
        images: images.iter().map(|&p| f32::from(p) / 16.0).collect(),
        labels: labels.iter().map(|&l| i32::from(l)).collect(),
    };
    let order = Shuffle::new(seed).order(all.len());
    let (held, train) = order.split_at(all.len() / 5);
    Ok((all.pick(train), all.pick(held)))
}

/// Draws images side by side, one character per pixel twice as wide as high.
pub fn draw(images: &[&[f32]]) -> String {
    const INK: &[u8] = b" .:-=+*#%@";
    let mut text = String::new();
    for row in 0..8 {
        for image in images {
            for &p in &image[row * 8..row * 8 + 8] {
                let ink = (p * (INK.len() - 1) as f32)
                    .round()
                    .clamp(0.0, (INK.len() - 1) as f32);
                let c = INK[ink as usize] as char;
                text.extend([c, c]);
            }
            text.push_str("  ");
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fifth_is_held_out_and_nothing_is_in_both() {
        let (train, held) = load(1).unwrap();
        assert_eq!((train.len(), held.len()), (1438, 359));
        assert!(train.images.iter().all(|p| (0.0..=1.0).contains(p)));
        let mut seen = Shuffle::new(1).order(1797);
        seen.sort_unstable();
        assert_eq!(seen, (0..1797).collect::<Vec<_>>());
    }

    #[test]
    fn drawing_has_eight_lines() {
        let (_, held) = load(1).unwrap();
        let text = draw(&[held.image(0), held.image(1)]);
        assert_eq!(text.lines().count(), 8);
        assert!(text.contains("@@"));
    }
}
