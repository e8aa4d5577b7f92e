//! Code objects for HIP: relocatable ones are linked by `libamd_comgr`, which HIP itself needs, so it is there.
//!
//! Unsafe module: foreign functions are called by the types that the header gives.
//!
//! Source: `amd_comgr.h` of ROCm, version 2.4 (ROCm 5.2) and 3.0 (ROCm 6.4); the number of the action differs.

use std::borrow::Cow;
use std::ffi::{CString, c_char, c_int};
use std::sync::OnceLock;

use drivers_runtime::NoLibrary;
use drivers_runtime::calls::Library;

/// The library's names, the newest first.
const LIBRARY: [&str; 3] = ["libamd_comgr.so.3", "libamd_comgr.so.2", "libamd_comgr.so"];

/// `AMD_COMGR_DATA_KIND_RELOCATABLE` and `AMD_COMGR_DATA_KIND_EXECUTABLE`.
const RELOCATABLE: c_int = 7;
const EXECUTABLE: c_int = 8;

/// `AMD_COMGR_ACTION_LINK_RELOCATABLE_TO_EXECUTABLE` of version 2 and of version 3.
const LINK: [(usize, c_int); 2] = [(2, 9), (3, 7)];

/// A handle: a structure of one 64-bit number, for data, sets and actions alike.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Handle(u64);

type Release = unsafe extern "C" fn(Handle) -> c_int;

struct Comgr {
    create_data: unsafe extern "C" fn(c_int, *mut Handle) -> c_int,
    release_data: Release,
    set_data: unsafe extern "C" fn(Handle, usize, *const c_char) -> c_int,
    set_data_name: unsafe extern "C" fn(Handle, *const c_char) -> c_int,
    get_data: unsafe extern "C" fn(Handle, *mut usize, *mut c_char) -> c_int,
    create_set: unsafe extern "C" fn(*mut Handle) -> c_int,
    destroy_set: Release,
    add: unsafe extern "C" fn(Handle, Handle) -> c_int,
    of_set: unsafe extern "C" fn(Handle, c_int, usize, *mut Handle) -> c_int,
    create_action: unsafe extern "C" fn(*mut Handle) -> c_int,
    destroy_action: Release,
    set_isa: unsafe extern "C" fn(Handle, *const c_char) -> c_int,
    act: unsafe extern "C" fn(c_int, Handle, Handle, Handle) -> c_int,
    link: c_int,
}

/// A handle that is released.
struct Owned {
    handle: Handle,
    release: Release,
}

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: the library has made it; it is released once.
        unsafe { (self.release)(self.handle) };
    }
}

impl Comgr {
    fn load() -> Result<Comgr, NoLibrary> {
        let library = Library::find(&LIBRARY)?;
        let (mut major, mut minor) = (0, 0);
        // SAFETY: each field has the type that the header gives the function of that name.
        unsafe {
            let version: unsafe extern "C" fn(*mut usize, *mut usize) =
                library.function("amd_comgr_get_version")?;
            version(&raw mut major, &raw mut minor);
            let link = LINK.iter().find(|(of, _)| *of == major);
            let Some(&(_, link)) = link else {
                return Err(NoLibrary::Broken {
                    name: library.name().into(),
                    why: format!("it has version {major}.{minor}, expected 2 or 3"),
                });
            };
            Ok(Comgr {
                create_data: library.function("amd_comgr_create_data")?,
                release_data: library.function("amd_comgr_release_data")?,
                set_data: library.function("amd_comgr_set_data")?,
                set_data_name: library.function("amd_comgr_set_data_name")?,
                get_data: library.function("amd_comgr_get_data")?,
                create_set: library.function("amd_comgr_create_data_set")?,
                destroy_set: library.function("amd_comgr_destroy_data_set")?,
                add: library.function("amd_comgr_data_set_add")?,
                of_set: library.function("amd_comgr_action_data_get_data")?,
                create_action: library.function("amd_comgr_create_action_info")?,
                destroy_action: library.function("amd_comgr_destroy_action_info")?,
                set_isa: library.function("amd_comgr_action_info_set_isa_name")?,
                act: library.function("amd_comgr_do_action")?,
                link,
            })
        }
    }

    fn made(
        what: &str,
        make: impl FnOnce(&mut Handle) -> c_int,
        release: Release,
    ) -> Result<Owned, String> {
        let mut handle = Handle::default();
        done(what, make(&mut handle))?;
        Ok(Owned { handle, release })
    }

    fn link(&self, object: &[u8], chip: &str) -> Result<Vec<u8>, String> {
        let isa = CString::new(format!("amdgcn-amd-amdhsa--{chip}")).map_err(|e| e.to_string())?;
        // SAFETY: each writes a handle; what it makes is released by its counterpart.
        let set = |what| Comgr::made(what, |h| unsafe { (self.create_set)(h) }, self.destroy_set);
        let (from, to) = (set("create_data_set")?, set("create_data_set")?);
        // SAFETY: the same.
        let make = |h: &mut Handle| unsafe { (self.create_data)(RELOCATABLE, h) };
        let data = Comgr::made("create_data", make, self.release_data)?;
        // SAFETY: the same.
        let make = |h: &mut Handle| unsafe { (self.create_action)(h) };
        let action = Comgr::made("create_action_info", make, self.destroy_action)?;
        // SAFETY: the handles are alive; bytes and texts are copied.
        let steps = unsafe {
            [
                (self.set_data)(data.handle, object.len(), object.as_ptr().cast()),
                (self.set_data_name)(data.handle, c"kernel.o".as_ptr()),
                (self.add)(from.handle, data.handle),
                (self.set_isa)(action.handle, isa.as_ptr()),
            ]
        };
        steps
            .into_iter()
            .try_for_each(|step| done("link input", step))?;
        // SAFETY: the handles are alive.
        let linked = unsafe { (self.act)(self.link, action.handle, from.handle, to.handle) };
        done("link", linked)?;
        // SAFETY: the set is alive; it writes a handle.
        let make = |h: &mut Handle| unsafe { (self.of_set)(to.handle, EXECUTABLE, 0, h) };
        let linked = Comgr::made("action_data_get_data", make, self.release_data)?;
        let mut bytes = 0;
        // SAFETY: without a place it writes the number of bytes.
        let sized = unsafe { (self.get_data)(linked.handle, &raw mut bytes, std::ptr::null_mut()) };
        done("get_data", sized)?;
        let mut image = vec![0u8; bytes];
        // SAFETY: the place has so many bytes.
        let got =
            unsafe { (self.get_data)(linked.handle, &raw mut bytes, image.as_mut_ptr().cast()) };
        done("get_data", got)?;
        Ok(image)
    }
}

fn done(what: &str, status: c_int) -> Result<(), String> {
    match status {
        0 => Ok(()),
        status => Err(format!("libamd_comgr: {what} failed with status {status}")),
    }
}

/// `e_type` of a relocatable object.
const ET_REL: u16 = 1;

/// The object as HIP takes it: a relocatable one is linked for a chip.
///
/// # Errors
/// The library is not there; what it refuses.
pub(crate) fn linked<'a>(object: &'a [u8], chip: &str) -> Result<Cow<'a, [u8]>, String> {
    let is_relocatable =
        object.starts_with(b"\x7fELF") && object.get(16..18) == Some(&ET_REL.to_le_bytes()[..]);
    if !is_relocatable {
        return Ok(Cow::Borrowed(object));
    }
    static COMGR: OnceLock<Result<Comgr, NoLibrary>> = OnceLock::new();
    let comgr = COMGR.get_or_init(Comgr::load).as_ref();
    let comgr = comgr.map_err(|why| format!("code objects are linked by libamd_comgr: {why}"))?;
    comgr.link(object, chip).map(Cow::Owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_linked_already_is_taken_as_it_is() {
        let mut object = vec![0u8; 64];
        object[..4].copy_from_slice(b"\x7fELF");
        // ET_DYN.
        object[16] = 3;
        let same = linked(&object, "gfx1100").unwrap();
        assert!(matches!(same, Cow::Borrowed(_)));
    }
}
