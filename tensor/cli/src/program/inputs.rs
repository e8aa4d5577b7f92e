//! The inputs of a model, from files or generated, as the command line names them.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use doorbell_run::{Port, given};
use tensor::io::{npy, npz};
use tensor::onnx::{Array, Dim, Elem, Model, Type, Value, backend};
use tensor::{DType, Engine, Scalar, Tensor};

use crate::model_bundle::{dtype, element};
use crate::program::error::Error;

/// What the command line says of the inputs of a model.
#[derive(clap::Args, Default)]
pub struct InputArgs {
    /// An input: NAME=FILE.npy, NAME=FILE.npz, NAME=FILE.pb, NAME=FILE.bin (the bytes of its elements), NAME=NUMBER for all of
    /// its elements, or NAME=rand:SEED; those that are not given are random
    #[arg(long = "input", value_name = "NAME=FROM", value_parser = from)]
    given: Vec<Given>,
    /// A size that the model leaves open: NAME=N, or INPUT.AXIS=N; default: 1
    #[arg(long = "dim", value_name = "NAME=N", value_parser = dim)]
    dims: Vec<(String, usize)>,
}

/// The same where no file may be named.
#[derive(clap::Args)]
pub struct Made {
    #[arg(long = "input", value_name = "NAME=FROM", value_parser = made)]
    given: Vec<Given>,
    #[arg(long = "dim", value_name = "NAME=N", value_parser = dim)]
    dims: Vec<(String, usize)>,
}

impl Made {
    /// The same as what is wanted.
    pub fn wanted(&self) -> InputArgs {
        InputArgs {
            given: self.given.clone(),
            dims: self.dims.clone(),
        }
    }
}

/// One input, and where it comes from.
#[derive(Clone, Debug)]
struct Given {
    name: String,
    from: Source,
}

#[derive(Clone, Debug)]
enum Source {
    File(PathBuf),
    Number(Scalar),
    Random(u64),
}

/// Reads the value of `--input`.
fn from(text: &str) -> Result<Given, String> {
    let bad = || {
        format!(
            "expected NAME=FILE.npy, FILE.npz, FILE.pb, FILE.bin, a number or rand:SEED, found {text:?}"
        )
    };
    let (name, from) = text.split_once('=').ok_or_else(bad)?;
    let number = || match from.parse::<i64>() {
        Ok(whole) => Some(whole.into()),
        Err(_) => from.parse::<f64>().ok().map(Scalar::from),
    };
    let from = match from.strip_prefix("rand:") {
        Some(seed) => Source::Random(seed.parse().map_err(|_| bad())?),
        None if from == "rand" => Source::Random(0),
        None => match number() {
            Some(number) => Source::Number(number),
            None => Source::File(from.into()),
        },
    };
    Ok(Given {
        name: name.into(),
        from,
    })
}

/// The same without files.
fn made(text: &str) -> Result<Given, String> {
    let given = from(text)?;
    match given.from {
        Source::File(_) => Err("expected NAME=NUMBER or NAME=rand:SEED, found a file".into()),
        Source::Number(_) | Source::Random(_) => Ok(given),
    }
}

/// Reads the value of `--dim`: `NAME=N`, or `INPUT.AXIS=N` for one size alone.
fn dim(text: &str) -> Result<(String, usize), String> {
    let bad = || format!("expected NAME=N or INPUT.AXIS=N, found {text:?}");
    let (name, size) = text.rsplit_once('=').ok_or_else(bad)?;
    Ok((name.into(), size.parse().map_err(|_| bad())?))
}

/// The names by which a size of an input can be given: that of the model, if it has one, and the place.
fn names(input: &str, axis: usize, dim: &Dim) -> Option<(Option<String>, String)> {
    let alone = format!("{input}.{axis}");
    match dim {
        Dim::Fixed(_) => None,
        Dim::Named(name) => Some((Some(name.clone()), alone)),
        Dim::Any => Some((None, alone)),
    }
}

/// The dimensions that a type declares.
fn declared(ty: &Type) -> &[Dim] {
    match ty {
        Type::Tensor(_, Some(dims)) | Type::Strings(Some(dims)) => dims,
        _ => &[],
    }
}

/// The shape of an input whose file does not say it: declared sizes, and what `dims` says of the
/// others. `assumed` is told of each size that nobody gave, by what to call it on the command line: it is 1.
fn shape(
    name: &str,
    ty: &Type,
    dims: &[(String, usize)],
    mut assumed: impl FnMut(&str),
) -> Result<Vec<usize>, Error> {
    let (Type::Tensor(_, declared) | Type::Strings(declared)) = ty else {
        return Err(Error::Usage(format!(
            "input {name}: only tensors can be generated, found {ty}; pass --input {name}=FILE.pb"
        )));
    };
    let Some(declared) = declared else {
        return Err(Error::Usage(format!(
            "input {name}: the model declares no shape; pass --input {name}=FILE.npy"
        )));
    };
    let given = |key: &str| dims.iter().find(|(name, _)| name == key).map(|(_, n)| *n);
    let sizes = declared.iter().enumerate().map(|(axis, dim)| {
        let Some((shared, alone)) = names(name, axis, dim) else {
            return if let Dim::Fixed(n) = dim { *n } else { 1 };
        };
        // One name may stand for several sizes: what is said of this one goes first.
        let found = given(&alone).or_else(|| given(shared.as_deref()?));
        found.unwrap_or_else(|| {
            assumed(
                shared
                    .as_deref()
                    .filter(|name| is_word(name))
                    .unwrap_or(&alone),
            );
            1
        })
    });
    Ok(sizes.collect())
}

/// Whether a name is one that people chose and that a shell leaves alone. Others (`?`, `None`,
/// `batch size`) mostly stand for sizes that have nothing to do with each other.
fn is_word(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    name != "None" && name.chars().all(plain) && name.starts_with(|c: char| !c.is_ascii_digit())
}

impl InputArgs {
    /// Whether an input is given.
    pub fn gives(&self, name: &str) -> bool {
        self.given.iter().any(|g| g.name == name)
    }

    /// The files that are read.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.given.iter().filter_map(|given| match &given.from {
            Source::File(path) => Some(path.as_path()),
            Source::Number(_) | Source::Random(_) => None,
        })
    }

    /// Each input is given once: of two values one would not be used.
    fn once(&self) -> Result<(), Error> {
        let mut names = HashSet::new();
        match self.given.iter().find(|given| !names.insert(&given.name)) {
            Some(twice) => Err(Error::Usage(format!(
                "expected --input {} once, found it twice",
                twice.name
            ))),
            None => Ok(()),
        }
    }

    /// Whether a model has the inputs and the open sizes that are given.
    ///
    /// # Errors
    /// It does not; what it has.
    pub fn check(&self, model: &Model) -> Result<(), Error> {
        self.once()?;
        let has = |name: &str| {
            let mut all = model.inputs().chain(model.defaults());
            all.any(|(input, _)| input == name)
        };
        if let Some(given) = self.given.iter().find(|given| !has(&given.name)) {
            let inputs: Vec<&str> = model.inputs().map(|(name, _)| name).collect();
            return Err(Error::Usage(format!(
                "no input {}; inputs: {}",
                given.name,
                listed(&inputs)
            )));
        }
        let (mut open, mut known) = (Vec::new(), HashSet::new());
        for (input, ty) in model.inputs().chain(model.defaults()) {
            for (axis, dim) in declared(ty).iter().enumerate() {
                let Some((shared, alone)) = names(input, axis, dim) else {
                    continue;
                };
                let word = shared.clone().filter(|name| is_word(name));
                let shown = word.unwrap_or_else(|| alone.clone());
                if !open.contains(&shown) {
                    open.push(shown);
                }
                known.extend(shared.into_iter().chain([alone]));
            }
        }
        match self.dims.iter().find(|(name, _)| !known.contains(name)) {
            Some((name, _)) if open.is_empty() => Err(Error::Usage(format!(
                "--dim {name}: the model has no open size"
            ))),
            Some((name, _)) => Err(Error::Usage(format!(
                "--dim {name}: the model has no such open size; open sizes: {}",
                listed(&open)
            ))),
            None => Ok(()),
        }
    }

    /// Every input of a model: those that are given from where they are given, the others random; sizes that nobody
    /// gave are 1. `made` is told which inputs are random, `assumed` which sizes are 1.
    ///
    /// # Errors
    /// As [`InputArgs::check`]; files that cannot be read, types that cannot be generated.
    pub fn all(
        &self,
        model: &Model,
        engine: &Engine,
        mut made: impl FnMut(String),
        mut assumed: impl FnMut(String),
    ) -> Result<Vec<(String, Value)>, Error> {
        self.check(model)?;
        let mut values = Vec::new();
        let mut noted = HashSet::new();
        let mut one = |key: &str| {
            if noted.insert(key.to_owned()) {
                assumed(format!("note: assuming {key}=1; set it with --dim {key}=N"));
            }
        };
        let mut value = |from: &Source, name: &str, ty: &Type| match from {
            Source::File(path) if is_raw(path) => {
                let shape = shape(name, ty, &self.dims, &mut one)?;
                raw(path, &shape, ty, name, engine)
            }
            Source::File(path) => read(path, name, ty, engine),
            Source::Number(number) => {
                let shape = shape(name, ty, &self.dims, &mut one)?;
                filled(&shape, ty, *number, name, engine)
            }
            Source::Random(seed) => {
                let shape = shape(name, ty, &self.dims, &mut one)?;
                random(&shape, ty, *seed, name, engine)
            }
        };
        for (name, ty) in model.inputs() {
            let value = match self.given.iter().find(|g| g.name == name) {
                Some(g) => value(&g.from, name, ty)?,
                None if matches!(ty, Type::Optional(_)) => continue,
                None => {
                    made(format!("input {name}: {ty}, random with seed 0"));
                    value(&Source::Random(0), name, ty)?
                }
            };
            values.push((name.to_string(), value));
        }
        for g in &self.given {
            if values.iter().any(|(name, _)| *name == g.name) {
                continue;
            }
            // An input with a default.
            let known = model.defaults().find(|(name, _)| *name == g.name);
            let ty = known.map_or(Type::Other(String::new()), |(_, ty)| ty.clone());
            values.push((g.name.clone(), value(&g.from, &g.name, &ty)?));
        }
        Ok(values)
    }
}

impl InputArgs {
    /// Whether a model bundle has the inputs that are given.
    ///
    /// # Errors
    /// It does not; what it has.
    pub fn check_ports(&self, ports: &[Port]) -> Result<(), Error> {
        self.once()?;
        if let Some(unknown) = self
            .given
            .iter()
            .find(|g| ports.iter().all(|p| p.name != g.name))
        {
            let names: Vec<&str> = ports.iter().map(|p| p.name.as_str()).collect();
            return Err(Error::Usage(format!(
                "--input {}: expected one of {}; the bundle has no such input",
                unknown.name,
                listed(&names)
            )));
        }
        match self.dims.first() {
            Some((name, _)) => Err(Error::Usage(format!(
                "--dim {name}: a bundle has no open sizes; compile the model with it"
            ))),
            None => Ok(()),
        }
    }

    /// A value for each input of a model bundle: what is given, else random numbers, which `seed` tells apart.
    ///
    /// # Errors
    /// As [`InputArgs::check_ports`]; files that cannot be read.
    pub fn of_ports(
        &self,
        ports: &[Port],
        engine: &Engine,
        seed: u64,
    ) -> Result<Vec<(String, Tensor)>, Error> {
        self.check_ports(ports)?;
        let mut values = Vec::with_capacity(ports.len());
        for port in ports {
            let (name, shape) = (&port.name, port.shape.iter().map(|&n| n as usize));
            let shape: Vec<usize> = shape.collect();
            let dims = shape.iter().map(|&n| Dim::Fixed(n)).collect();
            let ty = Type::Tensor(Elem::Plain(dtype(port.element)), Some(dims));
            let given = self.given.iter().find(|g| g.name == *name);
            let value = match given.map(|g| &g.from) {
                Some(Source::File(path)) if is_raw(path) => raw(path, &shape, &ty, name, engine)?,
                Some(Source::File(path)) => read(path, name, &ty, engine)?,
                Some(Source::Number(number)) => filled(&shape, &ty, *number, name, engine)?,
                Some(Source::Random(seed)) => random(&shape, &ty, *seed, name, engine)?,
                None => random(&shape, &ty, seed, name, engine)?,
            };
            let tensor = value.as_tensor().cloned();
            values.push((
                name.clone(),
                tensor.ok_or_else(|| Error::Usage(format!("input {name}: expected {ty}")))?,
            ));
        }
        Ok(values)
    }
}

/// Names as a list, the first of many.
fn listed(names: &[impl AsRef<str>]) -> String {
    const SHOWN: usize = 12;
    let shown: Vec<&str> = names.iter().take(SHOWN).map(AsRef::as_ref).collect();
    match names.len().saturating_sub(SHOWN) {
        0 if names.is_empty() => "none".into(),
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// Whether a file has the bytes of an input and nothing else, as those of `doorbell-run`.
fn is_raw(path: &Path) -> bool {
    path.extension().is_some_and(|e| e == "bin")
}

/// How long a pipe may take to give an input.
const PIPE: Duration = Duration::from_secs(10);

fn raw(
    path: &Path,
    shape: &[usize],
    ty: &Type,
    name: &str,
    engine: &Engine,
) -> Result<Value, Error> {
    let (dtype, _) = elements(shape, ty, name)?;
    let port = Port {
        name: name.into(),
        element: element(dtype),
        shape: shape.iter().map(|&n| n as u64).collect(),
    };
    let bytes = given::read(&port, path, PIPE)?;
    Ok(Tensor::from_bytes(engine, bytes, shape, dtype)?.into())
}

fn read(path: &Path, name: &str, ty: &Type, engine: &Engine) -> Result<Value, Error> {
    let array = match path.extension().and_then(|e| e.to_str()) {
        Some("pb") => return Ok(backend::read(path, ty, engine)?),
        Some("npy") => npy::read(path)?,
        Some("npz") => member(path, name)?,
        _ => {
            return Err(Error::Usage(format!(
                "input {name}: expected a .npy, .npz or .pb file, or a .bin file with the bytes of its elements, found {}",
                path.display()
            )));
        }
    };
    let tensor = Tensor::from_bytes(engine, array.data, &array.shape, array.dtype)?;
    Ok(tensor.into())
}

/// The array of the input's name, or the only one.
fn member(path: &Path, name: &str) -> Result<npy::Array, Error> {
    let mut file = npz::File::open(path)?;
    let names: Vec<String> = file.names().map(String::from).collect();
    Ok(match &names[..] {
        [only] if only != name => file.array(only)?,
        _ => file.array(name)?,
    })
}

/// The type that the elements of an input have, if numbers can be made for it, and how many there are.
fn elements(shape: &[usize], ty: &Type, name: &str) -> Result<(DType, usize), Error> {
    let Type::Tensor(Elem::Plain(dtype), _) = ty else {
        return Err(Error::Usage(format!(
            "input {name}: only numbers can be generated, found {ty}; pass --input {name}=FILE.pb"
        )));
    };
    let count = shape.iter().try_fold(1usize, |n, &d| n.checked_mul(d));
    match count.filter(|&n| n <= MOST) {
        Some(count) => Ok((*dtype, count)),
        None => Err(Error::Usage(format!(
            "input {name}: expected at most {MOST} elements, found {shape:?}"
        ))),
    }
}

/// An input whose elements are all one number.
fn filled(
    shape: &[usize],
    ty: &Type,
    number: Scalar,
    name: &str,
    engine: &Engine,
) -> Result<Value, Error> {
    let (dtype, _) = elements(shape, ty, name)?;
    let tensor = Tensor::full(&Engine::reference(), shape, number, dtype)?;
    Ok(Tensor::from_bytes(engine, tensor.to_bytes()?, shape, dtype)?.into())
}

/// Numbers for an input: floats in 0..1; of `i32` and `i64` only 0 and 1, which are positions in anything; of other integers, which
/// are pixels, samples or codes, all there are.
fn random(
    shape: &[usize],
    ty: &Type,
    seed: u64,
    name: &str,
    engine: &Engine,
) -> Result<Value, Error> {
    let (dtype, count) = elements(shape, ty, name)?;
    let mut state = seed;
    let words = std::iter::repeat_with(|| splitmix(&mut state)).take(count);
    let tensor = match dtype {
        DType::F32 => {
            let floats: Vec<f32> = words.map(|w| (w >> 40) as f32 / (1 << 24) as f32).collect();
            Tensor::from_slice(engine, &floats, shape)?
        }
        d if d.is_float() => {
            let floats: Vec<f64> = words
                .map(|w| (w >> 11) as f64 / (1u64 << 53) as f64)
                .collect();
            let reference = Engine::reference();
            let cast = Tensor::from_slice(&reference, &floats, shape)?.cast(dtype)?;
            Tensor::from_bytes(engine, cast.to_bytes()?, shape, dtype)?
        }
        d => {
            let mut bytes = vec![0; count * d.size()];
            let one_of_two = matches!(d, DType::Bool | DType::I32 | DType::I64);
            for (element, word) in bytes.chunks_exact_mut(d.size()).zip(words) {
                match one_of_two {
                    true => element[0] = (word >> 63) as u8,
                    false => element.copy_from_slice(&word.to_be_bytes()[..d.size()]),
                }
            }
            Tensor::from_bytes(engine, bytes, shape, dtype)?
        }
    };
    let elem = Elem::Plain(dtype);
    Ok(Array { tensor, elem }.into())
}

/// Elements of a generated input.
const MOST: usize = 1 << 30;

/// The next number of splitmix64 (Steele, Lea, Flood 2014): any seed will do, and it is the same
/// everywhere.
fn splitmix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_read() {
        assert!(matches!(
            from("x=rand:7"),
            Ok(Given {
                from: Source::Random(7),
                ..
            })
        ));
        assert!(
            matches!(from("x=a=b.npy"), Ok(Given { from: Source::File(f), .. }) if f == Path::new("a=b.npy"))
        );
        assert!(matches!(
            from("sr=16000"),
            Ok(Given {
                from: Source::Number(Scalar::Int(16000)),
                ..
            })
        ));
        assert!(from("x").is_err() && from("x=rand:many").is_err());
        assert!(made("sr=16000").is_ok() && made("x=rand:7").is_ok());
        assert!(made("x=a.npy").is_err());
        assert_eq!(dim("a.0=3"), Ok(("a.0".into(), 3)));
        assert_eq!(dim("?=3"), Ok(("?".into(), 3)));
        assert_eq!(dim("batch size=3"), Ok(("batch size".into(), 3)));
        assert!(dim("a").is_err() && dim("a=-1").is_err());
    }

    #[test]
    fn random_numbers_cover_the_range_of_what_is_no_position() {
        let engine = Engine::reference();
        let made = |dtype: DType, seed| {
            let ty = Type::Tensor(dtype.into(), None);
            let value = random(&[4096], &ty, seed, "x", &engine).unwrap();
            value.as_tensor().unwrap().to_f64_vec().unwrap()
        };
        for (dtype, least, most) in [
            (DType::U8, 0.0, 255.0),
            (DType::I8, -128.0, 127.0),
            (DType::U16, 0.0, 65535.0),
            (DType::I16, -32768.0, 32767.0),
            (DType::U32, 0.0, 4294967295.0),
            (DType::F32, 0.0, 1.0),
        ] {
            let numbers = made(dtype, 3);
            let width = (most - least) / 100.0;
            let near = |end: f64| numbers.iter().any(|n| (n - end).abs() <= width);
            assert!(
                near(least) && near(most) && near((least + most) / 2.0),
                "{dtype:?}"
            );
            assert!(
                numbers.iter().all(|n| (least..=most).contains(n)),
                "{dtype:?}"
            );
            assert_eq!(numbers, made(dtype, 3));
            assert_ne!(numbers, made(dtype, 4));
        }
        // All 256 of them.
        let bytes: HashSet<u64> = made(DType::U8, 0).iter().map(|n| *n as u64).collect();
        assert_eq!(bytes.len(), 256);
        for dtype in [DType::I32, DType::I64, DType::Bool] {
            let numbers = made(dtype, 3);
            assert!(numbers.iter().all(|n| [0.0, 1.0].contains(n)), "{dtype:?}");
        }
    }

    #[test]
    fn sizes_are_given_by_name_or_one_by_one_whatever_the_names_are() {
        let named = |name: &str| Dim::Named(name.into());
        let dims = [named("n"), named("?"), named("?"), Dim::Any];
        let ty = Type::Tensor(DType::F32.into(), Some(dims.to_vec()));
        let of = |given: &[(&str, usize)]| {
            let given: Vec<_> = given.iter().map(|(n, s)| (n.to_string(), *s)).collect();
            let mut asked = Vec::new();
            let shape = shape("x", &ty, &given, |key| asked.push(key.to_string()));
            (shape.ok(), asked)
        };
        let all = [("n", 5), ("?", 2), ("x.2", 3), ("x.3", 4)];
        assert_eq!(of(&all), (Some(vec![5, 2, 3, 4]), vec![]));
        let some = (Some(vec![5, 2, 2, 1]), vec!["x.3".to_string()]);
        assert_eq!(of(&all[..2]), some);
        let (made, asked) = of(&[]);
        assert_eq!(made, Some(vec![1; 4]));
        assert_eq!(asked, ["n", "x.1", "x.2", "x.3"]);
        let strange = [
            "",
            " ",
            "?",
            "None",
            "DynamicDimension.0",
            "batch size",
            "0",
        ];
        assert!(is_word("batch_2") && !strange.iter().any(|name| is_word(name)));
    }
}
