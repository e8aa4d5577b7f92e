//! [`Picture`]: an image whose format and rows are given, such as one of OpenCL or a plane of a frame.

use drivers_spec::qcom::descriptor::{Format, Texture};
use hcq::Buffer;

use crate::object::Image;

/// Images begin at multiples of it.
///
/// Source: Mesa, src/freedreno/registers/adreno/a6xx.xml, A6XX_TEX_CONST_4: BASE_LO has bits 31:5; TEXMEMOBJ of UAVs 64.
const ALIGN: u64 = 64;

/// The most pixels of a row, and rows.
///
/// Source: Mesa, src/freedreno/vulkan/tu_device.cc, `maxImageDimension2D`.
const MOST_SIDE: u32 = 1 << 14;

/// An image.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Picture {
    /// What a pixel is.
    pub format: Format,
    /// Pixels of a row.
    pub width: u32,
    /// Rows.
    pub height: u32,
    /// Bytes from a row to the next.
    pub pitch: u32,
}

impl Picture {
    /// Bytes from its first pixel to its last.
    pub fn bytes(&self) -> u64 {
        let rows = u64::from(self.height.saturating_sub(1)) * u64::from(self.pitch);
        rows + u64::from(self.width) * u64::from(self.format.bytes())
    }

    /// As an image of a kernel, whose address is the value of an argument.
    ///
    /// # Errors
    /// Why the hardware has no such image: its sizes, its pitch.
    pub fn image(&self, argument: u32) -> Result<Image, String> {
        if self.width.max(self.height) > MOST_SIDE {
            return Err(format!(
                "an image of {} by {} pixels, expected at most {MOST_SIDE} along a side: split it",
                self.width, self.height
            ));
        }
        let texture = Texture::rows(self.format, self.width, self.height, self.pitch, 0);
        texture.encode().map_err(|e| e.to_string())?;
        Ok(Image {
            argument,
            format: self.format,
            width: self.width,
            height: self.height,
            pitch: self.pitch,
        })
    }

    /// Checks that a buffer holds it.
    ///
    /// # Errors
    /// Why it does not.
    pub fn fits(&self, buffer: &Buffer) -> Result<(), String> {
        let (va, bytes, needs) = (buffer.va().0, buffer.bytes(), self.bytes());
        if !va.is_multiple_of(ALIGN) {
            return Err(format!(
                "an image at {va:#x}, expected a multiple of {ALIGN}: give each plane its own alignment"
            ));
        }
        if needs > bytes {
            return Err(format!(
                "an image of {} rows of {} bytes needs {needs} bytes, the buffer has {bytes}: check pitch and height",
                self.height, self.pitch
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use hcq::mem::view::View;
    use hcq::mem::window::Window;
    use hcq::{DeviceId, GpuVa, HostAccess};

    use super::*;

    fn buffer(va: u64, bytes: usize) -> Buffer {
        let window = Window::mapped("memory", View::alloc(bytes, 64).unwrap());
        let id = DeviceId::new("QCOM", 0);
        Buffer::new(
            id,
            GpuVa(va),
            bytes as u64,
            HostAccess::Window(window),
            Box::new(()),
        )
    }

    #[test]
    fn rows_are_where_they_were_laid() {
        let picture = Picture {
            format: Format::Rgba8Unorm,
            width: 100,
            height: 3,
            pitch: 448,
        };
        assert_eq!(picture.bytes(), 2 * 448 + 400);
        picture.fits(&buffer(0x1000, 2 * 448 + 400)).unwrap();
        let error = picture.fits(&buffer(0x1000, 2 * 448 + 399)).unwrap_err();
        assert!(error.contains("needs 1296 bytes"), "{error}");
        let error = picture.fits(&buffer(0x1020, 4096)).unwrap_err();
        assert!(error.contains("multiple of 64"), "{error}");
        let image = picture.image(2).unwrap();
        assert_eq!((image.argument, image.pitch), (2, 448));
        let narrow = Picture {
            pitch: 384,
            ..picture
        };
        assert!(narrow.image(0).is_err());
        let odd = Picture {
            pitch: 449,
            ..picture
        };
        assert!(odd.image(0).is_err());
        let wide = Picture {
            width: 20000,
            pitch: 80000,
            ..picture
        };
        assert!(wide.image(0).is_err());
    }
}
