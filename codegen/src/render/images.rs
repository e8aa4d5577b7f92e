//! Which buffers of a kernel are read as images, and in which form: by a cost model, from numbers alone.
//!
//! A pixel is four neighbouring elements. A buffer is an image where it lies: rows of pixels without gaps, so that a
//! pixel's number is all that its coordinates take.

use crate::target::ImageCosts;

/// Elements of a pixel.
pub(super) const PIXEL: u32 = 4;

/// A buffer as rows of pixels.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Rows {
    /// Pixels of a row; a power of two where there is more than one row.
    pub width: u32,
    /// Rows.
    pub height: u32,
    /// Bytes from a row to the next.
    pub pitch: u32,
}

impl Rows {
    /// The form of a buffer: one row if it is short enough, else rows that fill it exactly. Elements behind the last whole
    /// pixel are in none. `None` where the limits allow no such rows: a row that is no multiple of theirs would reach
    /// behind the buffer.
    pub fn of(elements: usize, size: usize, limits: &ImageCosts) -> Option<Rows> {
        let pixels = u64::try_from(elements).ok()? / u64::from(PIXEL);
        let bytes = PIXEL * u32::try_from(size).ok()?;
        if pixels == 0 {
            return None;
        }
        if let Ok(width) = u32::try_from(pixels)
            && width <= limits.side
        {
            let pitch = width * bytes;
            return pitch.is_multiple_of(limits.row_bytes).then_some(Rows {
                width,
                height: 1,
                pitch,
            });
        }
        let width = limits.side.min(1 << pixels.trailing_zeros().min(30));
        let height = u32::try_from(pixels / u64::from(width)).ok()?;
        let pitch = width * bytes;
        let fits = height <= limits.side
            && width.is_multiple_of(limits.row_pixels)
            && pitch.is_multiple_of(limits.row_bytes);
        fits.then_some(Rows {
            width,
            height,
            pitch,
        })
    }
}

/// What a launch reads of a buffer in whole pixels, by all its work-items.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct Traffic {
    /// Bytes of the buffer.
    pub own: f64,
    /// Bytes that are read; what fibers of a wave read together counts once.
    pub bytes: f64,
    /// Loads of waves.
    pub loads: f64,
    /// The image has several rows.
    pub rows: bool,
}

/// Cycles of a compute unit that reading a buffer as an image gains; less than zero where it costs some.
///
/// What is read the first time comes from memory, which takes as long on either way. A launch that reads a part of its
/// buffer only gains more than this says.
pub(super) fn gain(traffic: Traffic, cores: usize, costs: &ImageCosts) -> f64 {
    let cores = cores.max(1) as f64;
    let again = (traffic.bytes - traffic.own).max(0.0) / cores;
    let saved = again * (1.0 / costs.plain_bytes - 1.0 / costs.bytes);
    let rows = if traffic.rows {
        costs.row_coordinates
    } else {
        0.0
    };
    saved - traffic.loads / cores * (costs.coordinates + rows)
}

/// Which buffers are images: those that gain most, if together they gain more than a launch with images costs. `spare` is
/// how much longer a unit would read by plain loads than it issues instructions: more than that no image gains.
pub(super) fn chosen(gains: &[(u32, f64)], spare: f64, costs: &ImageCosts) -> Vec<u32> {
    let mut best: Vec<(u32, f64)> = gains.iter().copied().filter(|g| g.1 > 0.0).collect();
    best.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    best.truncate(costs.most);
    let all: f64 = best.iter().map(|g| g.1).sum();
    if all.min(spare) <= costs.launch {
        return Vec::new();
    }
    let mut args: Vec<u32> = best.into_iter().map(|g| g.0).collect();
    args.sort_unstable();
    args
}

#[cfg(test)]
mod tests {
    use super::*;

    const COSTS: ImageCosts = ImageCosts {
        bytes: 100.0,
        plain_bytes: 25.0,
        coordinates: 8.0,
        row_coordinates: 4.0,
        launch: 500.0,
        side: 16384,
        row_bytes: 64,
        row_pixels: 64,
        most: 2,
    };

    #[test]
    fn buffers_are_rows_within_the_limits() {
        let rows = |elements, size| {
            let rows = Rows::of(elements, size, &COSTS)?;
            Some((rows.width, rows.height, rows.pitch))
        };
        assert_eq!(rows(3, 4), None);
        // A row of 16 bytes, and one of 800.
        assert_eq!(rows(7, 4), None);
        assert_eq!(rows(400, 2), None);
        assert_eq!(rows(416, 2), Some((104, 1, 832)));
        // Elements behind the last whole pixel.
        assert_eq!(rows(419, 2), Some((104, 1, 832)));
        assert_eq!(rows(65536, 4), Some((16384, 1, 262_144)));
        // 16385 pixels have no power of two.
        assert_eq!(rows(65540, 4), None);
        // Rows of 8 and of 32 pixels.
        assert_eq!(rows(4 * 8 * 2049, 2), None);
        assert_eq!(rows(4 * 32 * 513, 4), None);
        assert_eq!(rows(4 * 64 * 257, 4), Some((64, 257, 1024)));
        assert_eq!(rows(4 * 64 * 257, 2), Some((64, 257, 512)));
        assert_eq!(rows(1 << 30, 4), Some((16384, 16384, 262_144)));
        assert_eq!(rows(1 << 31, 4), None);
    }

    #[test]
    fn what_is_read_once_gains_nothing() {
        let traffic = |times: f64| Traffic {
            own: 65536.0,
            bytes: 65536.0 * times,
            loads: 64.0 * times,
            rows: false,
        };
        assert!(gain(traffic(1.0), 2, &COSTS) < 0.0);
        assert!(gain(traffic(32.0), 2, &COSTS) > COSTS.launch);
        let rows = Traffic {
            rows: true,
            ..traffic(32.0)
        };
        assert!(gain(rows, 2, &COSTS) < gain(traffic(32.0), 2, &COSTS));
        // More units share it.
        assert!(gain(traffic(32.0), 4, &COSTS) < gain(traffic(32.0), 2, &COSTS));
    }

    #[test]
    fn the_best_are_chosen_if_they_pay_for_the_launch() {
        assert_eq!(chosen(&[(0, 300.0), (1, -5.0)], 1e4, &COSTS), [0u32; 0]);
        assert_eq!(chosen(&[(0, 300.0), (3, 400.0)], 1e4, &COSTS), [0, 3]);
        let three = [(0, 300.0), (3, 400.0), (5, 600.0)];
        assert_eq!(chosen(&three, 1e4, &COSTS), [3, 5]);
        // The unit is busy with instructions.
        assert_eq!(chosen(&three, 400.0, &COSTS), [0u32; 0]);
        assert_eq!(chosen(&three, -400.0, &COSTS), [0u32; 0]);
    }
}
