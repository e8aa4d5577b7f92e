//! From methods of `tensor::Tensor` to methods of Python, with stubs: what an argument is in Python, and what it is
//! if it is left out.

use super::source::Method;

/// Methods that are not made from their source, with what Python has instead, or why it has nothing.
pub const BY_HAND: &[(&str, &str)] = &[
    ("new", "Tensor(...)"),
    ("from_slice", "Tensor(...)"),
    ("from_bytes", "Tensor(...)"),
    (
        "from_source",
        "files are read by load_safetensors and read_npy",
    ),
    ("from_blob", "asarray, from_dlpack"),
    (
        "from_import",
        "memory of other devices has no handle in Python",
    ),
    ("to_dlpack", "__dlpack__"),
    ("to_dlpack_unversioned", "__dlpack__"),
    ("from_dlpack", "from_dlpack"),
    ("is_shared", "a property"),
    ("address", "data_ptr"),
    ("overwrite", "takes no gradient and waits: copy_into"),
    ("scalar", "Tensor(...)"),
    ("full", "a function: it takes a device"),
    ("zeros", "a function: it takes a device"),
    ("ones", "a function: it takes a device"),
    ("arange", "a function: it takes a device"),
    ("linspace", "a function: it takes a device"),
    ("eye", "a function: it takes a device"),
    ("full_like", "takes a number"),
    ("iota", "arange"),
    ("full_bits", "full"),
    ("read_npy", "a function: it takes a device"),
    ("write_npy", "waits without the lock of the interpreter"),
    ("realize", "waits without the lock of the interpreter"),
    ("to_bytes", "tobytes"),
    ("to_vec", "tolist, numpy"),
    ("to_f64_vec", "tolist, numpy"),
    ("item", "item"),
    ("show", "str()"),
    ("node", "the graph is not a part of the Python interface"),
    ("id", "the graph is not a part of the Python interface"),
    ("storage", "data_ptr"),
    ("shape", "a property"),
    ("rank", "ndim"),
    ("numel", "numel, size"),
    ("dtype", "a property"),
    ("engine", "device"),
    ("to", "takes a device or a type"),
    ("attention", "options are keywords: attention"),
    ("unique", "a tuple: unique"),
    (
        "nonzero",
        "reads without the lock of the interpreter: nonzero",
    ),
    (
        "masked_select",
        "reads without the lock of the interpreter: masked_select",
    ),
    ("conv", "options are keywords: conv"),
    ("conv_transpose", "options are keywords: conv_transpose"),
    ("max_pool", "options are keywords: max_pool"),
    ("max_pool_indices", "options are keywords: max_pool_indices"),
    ("avg_pool", "options are keywords: avg_pool"),
    ("lp_pool", "options are keywords: lp_pool"),
    ("interpolate", "the mode is a word: interpolate"),
    ("pad", "the mode is a word: pad"),
    ("scatter", "the mode is a word: scatter"),
    ("scatter_reduce", "the mode is a word: scatter_reduce"),
    ("scatter_nd", "the mode is a word: scatter_nd"),
    ("nll_loss", "options are keywords: nll_loss"),
    ("cross_entropy", "options are keywords: cross_entropy"),
    ("sum_of", "a sum by the operator"),
    ("product_of", "a product by the operator"),
    ("einsum", "a function: einsum"),
    ("cat", "a function: cat"),
    ("stack", "a function: stack"),
    ("meshgrid", "a function: meshgrid"),
    ("slice", "x[...]"),
    ("index", "x[...]"),
    ("not", "the operator ~; the name is a word of Python"),
    ("unary", "a method for each operation"),
    ("binary", "a method for each operation"),
    ("reduce", "a method for each operation"),
    ("scan", "cumsum, cumprod, cummax, cummin"),
    ("pad_to", "pad"),
    ("argmax", "without an axis of all elements"),
    ("argmin", "without an axis of all elements"),
    ("reshape", "sizes are arguments, and -1 is what is left"),
    ("view", "reshape"),
    ("permute", "axes are arguments"),
    ("transpose", "takes two axes, or all, or none"),
    ("expand", "sizes are arguments, and -1 keeps the axis"),
];

/// Names of arguments in Python, where they are others.
const NAMES: [(&str, &str); 8] = [
    ("along", "axis"),
    ("keep", "keepdims"),
    ("from", "source"),
    ("to", "destination"),
    ("at", "axis"),
    ("lambda", "lambd"),
    ("low", "min"),
    ("high", "max"),
];

/// What an argument is if it is left out: of a method (or of all), its name in Python, a number or a word of Python.
const DEFAULTS: &[(&str, &str, &str)] = &[
    ("*", "keepdims", "False"),
    ("*", "reduction", "\"mean\""),
    ("*", "descending", "False"),
    ("*", "equal_nan", "False"),
    ("*", "rtol", "1e-5"),
    ("*", "atol", "1e-8"),
    ("*", "correction", "0.0"),
    ("softmax", "axis", "-1"),
    ("softmin", "axis", "-1"),
    ("log_softmax", "axis", "-1"),
    ("hardmax", "axis", "-1"),
    ("sort", "axis", "-1"),
    ("argsort", "axis", "-1"),
    ("ranks", "axis", "-1"),
    ("topk", "axis", "-1"),
    ("topk", "largest", "True"),
    ("median", "axis", "-1"),
    ("normalize", "p", "2.0"),
    ("normalize", "axis", "-1"),
    ("normalize", "eps", "1e-12"),
    ("norm", "p", "2.0"),
    ("standardize", "eps", "1e-5"),
    ("layer_norm", "axes", "1"),
    ("layer_norm", "eps", "1e-5"),
    ("rms_norm", "eps", "1e-6"),
    ("group_norm", "eps", "1e-5"),
    ("instance_norm", "eps", "1e-5"),
    ("batch_norm", "eps", "1e-5"),
    ("local_response_norm", "alpha", "1e-4"),
    ("local_response_norm", "beta", "0.75"),
    ("local_response_norm", "k", "1.0"),
    ("leaky_relu", "slope", "0.01"),
    ("elu", "alpha", "1.0"),
    ("celu", "alpha", "1.0"),
    ("thresholded_relu", "alpha", "1.0"),
    ("shrinkage", "lambd", "0.5"),
    ("shrinkage", "bias", "0.0"),
    ("softplus", "beta", "1.0"),
    ("hardsigmoid", "alpha", "0.16666666666666666"),
    ("hardsigmoid", "beta", "0.5"),
    ("hardtanh", "min", "-1.0"),
    ("hardtanh", "max", "1.0"),
    ("huber_loss", "delta", "1.0"),
    ("smooth_l1_loss", "beta", "1.0"),
    ("tril", "diagonal", "0"),
    ("triu", "diagonal", "0"),
    ("flatten", "first", "0"),
    ("flatten", "last", "-1"),
    ("diagonal", "a", "0"),
    ("diagonal", "b", "1"),
    ("searchsorted", "right", "False"),
    ("solve_triangular", "upper", "True"),
    ("gather_nd", "batch", "0"),
    ("rotary", "interleaved", "False"),
    ("rotary_angles", "base", "10000.0"),
    ("scatter_mean", "include_self", "True"),
    ("depth_to_space", "block_first", "True"),
    ("space_to_depth", "block_first", "True"),
];

/// How a type of the engine is taken from Python: the type of the argument here, its value from `name`, the type in stubs,
/// and whether it may be left out.
struct Kind {
    engine: &'static str,
    taken: &'static str,
    value: &'static str,
    stub: &'static str,
    optional: bool,
}

const fn kind(
    engine: &'static str,
    taken: &'static str,
    value: &'static str,
    stub: &'static str,
) -> Kind {
    Kind {
        engine,
        taken,
        value,
        stub,
        optional: false,
    }
}

const fn optional(kind: Kind) -> Kind {
    Kind {
        optional: true,
        ..kind
    }
}

const KINDS: [Kind; 13] = [
    optional(kind(
        "&[isize]",
        "Option<Axes>",
        "&NAME.unwrap_or_default().0",
        "_int | Sequence[_int] | None",
    )),
    kind("isize", "isize", "NAME", "_int"),
    kind("usize", "usize", "NAME", "_int"),
    kind("i64", "i64", "NAME", "_int"),
    kind("f64", "f64", "NAME", "_float"),
    kind("bool", "bool", "NAME", "_bool"),
    kind("&[usize]", "Sizes", "&NAME.0", "_int | Sequence[_int]"),
    kind("&Tensor", "Other", "&NAME.tensor(py, &this)?", "TensorLike"),
    optional(kind(
        "Option<&Tensor>",
        "Option<Other>",
        "NAME.map(|given| given.tensor(py, &this)).transpose()?.as_ref()",
        "TensorLike | None",
    )),
    kind(
        "impl Into<Operand>",
        "Other",
        "NAME.operand(py, &this)?",
        "TensorLike",
    ),
    optional(kind(
        "Option<Operand>",
        "Option<Other>",
        "NAME.map(|given| given.operand(py, &this)).transpose()?",
        "TensorLike | None",
    )),
    kind("DType", "Kind", "NAME.0", "DTypeLike"),
    kind("Reduction", "Reduced", "NAME.0", "Reduction"),
];

/// Results: the type of the engine, the type here, how it is made of `found`, the type in stubs.
const RESULTS: [(&str, &str, &str, &str); 3] = [
    (
        "Result<Tensor>",
        "PyTensor",
        "PyTensor::of(found)",
        "Tensor",
    ),
    (
        "Result<(Tensor, Tensor)>",
        "(PyTensor, PyTensor)",
        "(PyTensor::of(found.0), PyTensor::of(found.1))",
        "tuple[Tensor, Tensor]",
    ),
    (
        "Result<Vec<Tensor>>",
        "Vec<PyTensor>",
        "found.into_iter().map(PyTensor::of).collect()",
        "list[Tensor]",
    ),
];

/// Names of methods in Python, where they are others.
const METHODS: [(&str, &str); 1] = [("where_", "where")];

fn named<'a>(list: &[(&'a str, &'a str)], name: &'a str) -> &'a str {
    list.iter()
        .find(|row| row.0 == name)
        .map_or(name, |row| row.1)
}

/// Why a method cannot be made from its source; none if it can, or is one of those by hand.
#[allow(dead_code, reason = "the test asks")]
pub fn unknown(method: &Method) -> Option<String> {
    let by_hand = BY_HAND.iter().any(|(name, _)| *name == method.name);
    match by_hand {
        true => None,
        false => converted(method).err(),
    }
}

/// The methods for `#[pymethods]`, and their stubs. What cannot be made is left out; a test finds it.
pub fn written(all: &[Method]) -> (String, String) {
    let mut rust = String::from("#[pymethods]\nimpl PyTensor {\n");
    let mut stubs = String::new();
    let made = all
        .iter()
        .filter(|method| BY_HAND.iter().all(|(name, _)| *name != method.name));
    for (method, stub) in made.filter_map(|method| converted(method).ok()) {
        rust += &method;
        stubs += &stub;
    }
    rust += "}\n";
    (rust, stubs)
}

/// A method, and its stub.
///
/// # Errors
/// An argument or a result that Python has no counterpart of.
pub fn converted(method: &Method) -> Result<(String, String), String> {
    let wrong = |what: &str| {
        format!(
            "Tensor::{}: {what} has no counterpart in Python; add one to KINDS or RESULTS in \
             tensor/python/build/methods.rs, or write the method in tensor/python/src and name it in BY_HAND",
            method.name
        )
    };
    if !method.on_tensor {
        return Err(wrong("a method that is not called on a tensor"));
    }
    let result = RESULTS.iter().find(|row| row.0 == method.returns);
    let Some(&(_, result, made, stub_result)) = result else {
        return Err(wrong(&format!("a result {}", method.returns)));
    };
    let python = named(&METHODS, &method.name);
    let (mut taken, mut values) = (String::new(), Vec::new());
    let (mut signature, mut stub) = (Vec::new(), vec!["self".to_owned()]);
    let mut has_default = false;
    for (name, ty) in &method.args {
        let known = KINDS.iter().find(|kind| kind.engine == ty);
        let Some(kind) = known else {
            return Err(wrong(&format!("an argument {name}: {ty}")));
        };
        let name = named(&NAMES, name);
        taken += &format!(", {name}: {}", kind.taken);
        values.push(kind.value.replace("NAME", name));
        let default = DEFAULTS
            .iter()
            .find(|row| (row.0 == "*" || row.0 == method.name) && row.1 == name)
            .map(|row| row.2)
            .or((kind.optional && may_be_none(name, ty)).then_some("None"));
        if has_default && default.is_none() {
            return Err(wrong(&format!(
                "{name}, which stands behind an argument with a default,"
            )));
        }
        has_default |= default.is_some();
        match default {
            Some(text) => {
                signature.push(format!("{name}={}", in_rust(text, kind.taken)));
                stub.push(format!("{name}: {} = {text}", kind.stub));
            }
            None => {
                signature.push(name.to_owned());
                stub.push(format!("{name}: {}", kind.stub));
            }
        }
    }
    let mut rust = String::new();
    for line in &method.doc {
        rust += &format!("    #[doc = {:?}]\n", in_python(line));
    }
    let python_name = match python == method.name {
        true => String::new(),
        false => format!("name = {python:?}, "),
    };
    rust += &format!(
        "    #[pyo3({python_name}signature = ({}))]\n    fn {}(&self, py: Python<'_>{taken}) -> Done<{result}> {{\n\
         \x20       let this = self.value();\n        let _ = py;\n        let found = this.{}({})?;\n        \
         Ok({made})\n    }}\n",
        signature.join(", "),
        method.name,
        method.name,
        values.join(", "),
    );
    let doc: Vec<String> = method.doc.iter().map(|line| in_python(line)).collect();
    let summary = doc.join("\n        ").trim_end().to_owned();
    let stub = format!(
        "    def {python}({}) -> {stub_result}:\n        \"\"\"{summary}\"\"\"\n        ...\n",
        stub.join(", ")
    );
    Ok((rust, stub))
}

/// Axes that are left out are all of them; other lists have no such meaning.
fn may_be_none(name: &str, ty: &str) -> bool {
    name == "axis" || ty.starts_with("Option<")
}

/// A default of Python in Rust.
fn in_rust(text: &str, taken: &str) -> String {
    match (text, taken) {
        ("True", _) => "true".into(),
        ("False", _) => "false".into(),
        (text, "Reduced") => format!("Reduced::of({text})"),
        (text, _) => text.into(),
    }
}

/// A line of documentation as Python's `help` shows it: links of rustdoc are words, headings are lines.
fn in_python(line: &str) -> String {
    let line = line.strip_prefix("# ").unwrap_or(line);
    let mut out = line.replace("`Tensor::", "`").replace("Tensor::", "");
    for (from, to) in [
        ("[`", "`"),
        ("`]", "`"),
        ("Bool", "bool"),
        ("\"\"\"", "'''"),
    ] {
        out = out.replace(from, to);
    }
    out
}
