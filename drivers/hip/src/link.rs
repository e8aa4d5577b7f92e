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

/// Where `e_ident` has the version of a code object, and what stands for 4 and 5.
///
/// Source: LLVM, AMDGPUUsage, "Header": `EI_ABIVERSION`, `ELFABIVERSION_AMDGPU_HSA_V4` and `_V5`.
const ABI_VERSION: usize = 8;
const V4: u8 = 2;
const V5: u8 = 3;

/// The version in the metadata, as MessagePack has it: a text of 14 bytes, and a list of 1 and 2.
///
/// Source: LLVM, AMDGPUUsage, "Code Object V5 Metadata".
const METADATA_V5: &[u8] = b"\xaeamdhsa.version\x92\x01\x02";

/// What names of arguments that the runtime adds start with.
const HIDDEN: &[u8] = b"hidden_";

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
    /// Code objects of version 5 are known.
    has_v5: bool,
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
                // ROCm 5.2, with 2.4, refuses them; ROCm 6 takes both.
                has_v5: major > 2,
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
        let object = match self.has_v5 {
            true => Cow::Borrowed(object),
            false => older(object)?,
        };
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

/// A code object of version 5 as one of version 4. They differ in the arguments that the runtime adds, and in what metadata may say
/// beside: without such arguments the kernels are the same.
///
/// Source: LLVM, AMDGPUUsage, "Code Object V5 Metadata", "Kernel Descriptor".
fn older(object: &[u8]) -> Result<Cow<'_, [u8]>, String> {
    if object.get(ABI_VERSION) != Some(&V5) {
        return Ok(Cow::Borrowed(object));
    }
    let find = |what: &[u8]| object.windows(what.len()).position(|part| part == what);
    if find(HIDDEN).is_some() {
        return Err(
            "this ROCm takes code objects up to version 4, and this one of version 5 has arguments of the runtime: compile it with \
             -mcode-object-version=4"
                .into(),
        );
    }
    let version = find(METADATA_V5).ok_or("a code object of version 5 without its metadata")?;
    let mut object = object.to_vec();
    object[ABI_VERSION] = V4;
    object[version + METADATA_V5.len() - 1] = 1;
    Ok(Cow::Owned(object))
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
    fn a_code_object_without_hidden_arguments_is_one_of_the_older_version() {
        let mut object = vec![0u8; 16];
        object[ABI_VERSION] = V5;
        assert!(older(&object).unwrap_err().contains("metadata"));
        object.extend_from_slice(METADATA_V5);
        let same = older(&object).unwrap();
        assert_eq!((same[ABI_VERSION], same.last()), (V4, Some(&1)));
        assert_eq!(
            same[16..].split_last().unwrap().1,
            object[16..].split_last().unwrap().1
        );
        assert!(matches!(older(&same), Ok(Cow::Borrowed(_))));
        object.extend_from_slice(b"hidden_block_count_x");
        assert!(
            older(&object)
                .unwrap_err()
                .contains("-mcode-object-version=4")
        );
    }

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
