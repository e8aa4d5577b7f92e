//! From the bytes of a file to a [`Program`]: every name is resolved, every function inlined, every
//! size checked, and everything that cannot be run is listed, before anything runs.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use prost::Message;

use super::data::{self, DataFault, External, Literal};
use super::error::{Location, Missing, OnnxError};
use super::graph::{Attr, Constant, Graph, NEWEST_OPSET, Node, Port, Program, Slot};
use super::ops;
use super::proto::{
    AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto,
    attribute_type as ty,
};
use super::sort;
use super::types::{Type, type_of, value_type};
use crate::io::{Quoted, Shared};

/// Nodes that a model may have once its functions are inlined. Real ones have some ten thousand; a
/// small file of functions that call each other twice can name more than memory holds.
const MOST_NODES: usize = 2_000_000;

/// Functions and subgraphs that may be within each other.
const MOST_NESTED: usize = 64;

type Result<T> = std::result::Result<T, OnnxError>;

/// Reads a model; what it needs and is not there is listed in it. `file` stands for it in messages; external data lies in `folder`.
pub(super) fn load(
    file: &str,
    folder: Option<&Path>,
    opened: Option<&Shared>,
    bytes: Bytes,
) -> Result<Program> {
    let mut reader = Reader {
        file,
        external: External::new(folder, opened),
        functions: HashMap::new(),
        opsets: BTreeMap::new(),
        constants: Vec::new(),
        scopes: Vec::new(),
        slots: 0,
        nodes: 0,
        nested: 0,
        missing: Vec::new(),
        lacking: BTreeMap::new(),
    };
    let size = bytes.len();
    let model = ModelProto::decode(bytes).map_err(|e| {
        reader.malformed(
            Location::model(),
            format!(
                "{size} bytes are not an ONNX model ({e}); the file is truncated, damaged, or of another format"
            ),
        )
    })?;
    let Some(graph) = &model.graph else {
        return Err(reader.malformed(
            Location::model(),
            format!("no graph in {size} bytes; is this an ONNX model?"),
        ));
    };
    for function in &model.functions {
        let key = (
            domain(&function.domain).to_string(),
            function.name.clone(),
            function.overload.clone(),
        );
        if reader.functions.insert(key, function).is_some() {
            let place = Location::named("function", &function.name);
            return Err(reader.malformed(place, "is defined twice; remove one of them".into()));
        }
    }
    reader.opsets = reader.opsets_of(&model.opset_import);
    if reader.opsets.is_empty() {
        return Err(reader.malformed(
            Location::model(),
            "operator set without a version; export the model again".into(),
        ));
    }
    let graph = reader.graph(graph, true)?;
    Ok(Program {
        file: file.into(),
        graph,
        missing: reader.missing,
        lacking: reader.lacking,
        constants: reader.constants,
        slots: reader.slots as usize,
        opsets: reader.opsets,
        producer: format!("{} {}", model.producer_name, model.producer_version)
            .trim()
            .to_string(),
        ir_version: model.ir_version,
    })
}

/// The default domain has two names.
fn domain(name: &str) -> &str {
    if name == "ai.onnx" { "" } else { name }
}

/// Names of one graph or function body.
#[derive(Default)]
struct Scope<'a> {
    names: HashMap<String, Slot>,
    /// Names outside of a function body are unknown in it.
    closed: bool,
    /// Attributes of the call that a function body may refer to.
    attrs: BTreeMap<String, Attr>,
    /// Inputs of the function that the call left out.
    absent: HashSet<&'a str>,
}

struct Reader<'a> {
    file: &'a str,
    external: External,
    functions: HashMap<(String, String, String), &'a FunctionProto>,
    opsets: BTreeMap<String, i64>,
    constants: Vec<Constant>,
    scopes: Vec<Scope<'a>>,
    slots: Slot,
    nodes: usize,
    nested: usize,
    missing: Vec<Missing>,
    lacking: BTreeMap<String, usize>,
}

impl<'a> Reader<'a> {
    fn malformed(&self, place: Location, what: String) -> OnnxError {
        OnnxError::Malformed {
            file: self.file.into(),
            place,
            what,
        }
    }

    fn lacks(&mut self, what: String, place: Location) {
        match self.missing.iter_mut().find(|m| m.what == what) {
            Some(known) => known.count += 1,
            None => self.missing.push(Missing {
                what,
                place,
                count: 1,
            }),
        }
    }

    /// The versions of operator sets; those that are not known are noted.
    fn opsets_of(&mut self, imports: &[OperatorSetIdProto]) -> BTreeMap<String, i64> {
        let mut found = BTreeMap::new();
        for import in imports {
            let name = domain(&import.domain);
            if name.is_empty() && !(1..=NEWEST_OPSET).contains(&import.version) {
                self.lacks(
                    format!(
                        "operator set {}; 1 to {NEWEST_OPSET} are supported (convert it with \
                         onnx.version_converter)",
                        import.version
                    ),
                    Location::model(),
                );
            }
            found.insert(name.to_string(), import.version);
        }
        found
    }

    fn data_fault(&self, place: Location, fault: DataFault) -> OnnxError {
        match fault {
            DataFault::Wrong(what) => self.malformed(place, what),
            DataFault::File(e) => OnnxError::File(e),
            DataFault::Unsupported(what) => OnnxError::Unsupported {
                file: self.file.into(),
                missing: vec![Missing {
                    what,
                    place,
                    count: 1,
                }],
            },
        }
    }

    /// A constant; one of an unknown type is noted, and its place is empty.
    fn literal(
        &mut self,
        place: Location,
        made: std::result::Result<Literal, DataFault>,
    ) -> Result<Arc<Literal>> {
        match made {
            Ok(literal) => Ok(Arc::new(literal)),
            Err(DataFault::Unsupported(what)) => {
                self.lacks(what, place);
                Ok(Arc::new(Literal::Strings {
                    shape: vec![0],
                    items: Arc::from([]),
                }))
            }
            Err(fault) => Err(self.data_fault(place, fault)),
        }
    }

    fn fresh(&mut self) -> Result<Slot> {
        let slot = self.slots;
        self.slots = slot
            .checked_add(1)
            .ok_or_else(|| self.malformed(Location::model(), "has more than 2^32 values".into()))?;
        Ok(slot)
    }

    fn find(&self, name: &str) -> Option<Slot> {
        for scope in self.scopes.iter().rev() {
            if let Some(&slot) = scope.names.get(name) {
                return Some(slot);
            }
            if scope.closed {
                return None;
            }
        }
        None
    }

    fn define(&mut self, name: &str, slot: Slot) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.names.insert(name.into(), slot);
        }
    }

    fn defined_here(&self, name: &str) -> bool {
        let scope = self.scopes.last();
        scope.is_some_and(|s| s.names.contains_key(name))
    }

    fn graph(&mut self, proto: &GraphProto, main: bool) -> Result<Graph> {
        // Functions in subgraphs in functions: each takes a part of the stack.
        if self.nested >= MOST_NESTED {
            let what = format!("is nested in {MOST_NESTED} functions and subgraphs");
            return Err(self.malformed(Location::named("graph", &proto.name), what));
        }
        self.nested += 1;
        self.scopes.push(Scope::default());
        let mut graph = Graph::default();
        self.initializers(proto)?;
        for info in &proto.input {
            let ty = value_type(info);
            if let Type::Other(what) = &ty
                && main
                && !what.is_empty()
            {
                self.lacks(what.clone(), Location::named("input", &info.name));
            }
            let known = self.scopes.last().and_then(|s| s.names.get(&info.name));
            match known.copied() {
                Some(slot) => graph.defaults.push(Port {
                    name: info.name.clone(),
                    slot,
                    ty,
                }),
                None => {
                    let slot = self.fresh()?;
                    self.define(&info.name, slot);
                    graph.inputs.push(Port {
                        name: info.name.clone(),
                        slot,
                        ty,
                    });
                }
            }
        }
        self.body(&proto.node, &mut graph.nodes)?;
        for info in &proto.output {
            let Some(slot) = self.find(&info.name) else {
                return Err(self.undefined(Location::named("output", &info.name), &info.name));
            };
            let ty = value_type(info);
            graph.outputs.push(Port {
                name: info.name.clone(),
                slot,
                ty,
            });
        }
        self.scopes.pop();
        self.nested -= 1;
        Ok(graph)
    }

    fn initializers(&mut self, proto: &GraphProto) -> Result<()> {
        let dense = proto.initializer.iter().map(|t| (t.name.as_str(), Ok(t)));
        let sparse = proto.sparse_initializer.iter().map(|s| {
            let name = s.values.as_ref().map_or("", |v| v.name.as_str());
            (name, Err(s))
        });
        for (name, tensor) in dense.chain(sparse) {
            let place = Location::named("initializer", name);
            if self.defined_here(name) {
                return Err(self.malformed(place, "is defined twice; remove one of them".into()));
            }
            let made = match tensor {
                Ok(tensor) => data::literal(tensor, &mut self.external),
                Err(sparse) => data::dense(sparse, &mut self.external),
            };
            let value = self.literal(place, made)?;
            let slot = self.fresh()?;
            self.define(name, slot);
            self.constants.push(Constant { slot, value });
        }
        Ok(())
    }

    fn undefined(&self, place: Location, name: &str) -> OnnxError {
        let mut known: Vec<&str> = Vec::new();
        for scope in self.scopes.iter().rev() {
            known.extend(scope.names.keys().map(String::as_str));
            if scope.closed {
                break;
            }
        }
        known.sort_unstable();
        let hint = match crate::io::nearest(name, known.into_iter()) {
            Some(near) => format!("; did you mean {}?", Quoted::new(near)),
            None => "; the file is damaged or truncated".into(),
        };
        let name = Quoted::new(name);
        self.malformed(
            place,
            format!("needs the value {name}, which no node produces{hint}"),
        )
    }

    /// The nodes of a graph or function, in an order in which they can run.
    fn body(&mut self, nodes: &[NodeProto], out: &mut Vec<Node>) -> Result<()> {
        let order = sort::order(nodes).map_err(|fault| match fault {
            sort::Fault::Twice(name, a, b) => self.malformed(
                place_of(&nodes[b]),
                format!(
                    "produces the value {}, which {} produces as well; rename one of them",
                    Quoted::new(&name),
                    place_of(&nodes[a])
                ),
            ),
            sort::Fault::Cycle(at) => self.malformed(
                place_of(&nodes[at]),
                "depends on its own output; a graph must have no cycles".into(),
            ),
        })?;
        for at in order {
            self.node(&nodes[at], out)?;
        }
        Ok(())
    }

    fn node(&mut self, proto: &NodeProto, out: &mut Vec<Node>) -> Result<()> {
        self.nodes += 1;
        if self.nodes > MOST_NODES {
            return Err(self.malformed(
                Location::model(),
                format!(
                    "has more than {MOST_NODES} nodes with functions inlined; do functions call each \
                     other in a chain?"
                ),
            ));
        }
        let place = place_of(proto);
        let mut inputs = Vec::with_capacity(proto.input.len());
        for name in &proto.input {
            inputs.push(match name.as_str() {
                "" => None,
                name => match self.find(name) {
                    Some(slot) => Some(slot),
                    // An optional input of the function that the caller left out.
                    None if self.left_out(name) => None,
                    None => return Err(self.undefined(place, name)),
                },
            });
        }
        let attrs = self.attributes(proto, &place)?;
        let mut outputs = Vec::with_capacity(proto.output.len());
        for name in &proto.output {
            outputs.push(match name.as_str() {
                "" => None,
                name => {
                    // Outputs of a function body have the slots of the call already.
                    let bound = self.scopes.last().and_then(|s| s.names.get(name)).copied();
                    match bound {
                        Some(slot) if self.in_function() => Some(slot),
                        Some(_) => {
                            let shown = Quoted::new(name);
                            return Err(self.malformed(
                                place,
                                format!(
                                    "produces the value {shown}, which is an input or initializer; \
                                     rename one of them"
                                ),
                            ));
                        }
                        None => {
                            let slot = self.fresh()?;
                            self.define(name, slot);
                            Some(slot)
                        }
                    }
                }
            });
        }
        let key = (
            domain(&proto.domain).to_string(),
            proto.op_type.clone(),
            proto.overload.clone(),
        );
        if let Some(&function) = self.functions.get(&key) {
            return self.inline(function, place, &inputs, &outputs, attrs, out);
        }
        let Some(&opset) = self.opsets.get(&key.0) else {
            self.lacks(
                format!(
                    "{} (its operator set is not imported by the model)",
                    named(&key.0, &key.1)
                ),
                place,
            );
            return Ok(());
        };
        match ops::find(&key.0, &key.1) {
            Some(meaning) => out.push(Node {
                op: proto.op_type.clone(),
                place,
                opset,
                inputs,
                outputs,
                attrs,
                meaning,
            }),
            None => {
                let name = named(&key.0, &key.1);
                *self.lacking.entry(name.clone()).or_default() += 1;
                self.lacks(format!("operator {name} of operator set {opset}"), place);
            }
        }
        Ok(())
    }

    fn in_function(&self) -> bool {
        self.scopes.last().is_some_and(|s| s.closed)
    }

    /// Whether a name is an input of the function that its call left out.
    fn left_out(&self, name: &str) -> bool {
        let scope = self.scopes.iter().rev().find(|s| s.closed);
        scope.is_some_and(|s| s.absent.contains(name))
    }

    /// Puts the body of a function in the place of a call.
    fn inline(
        &mut self,
        function: &'a FunctionProto,
        place: Location,
        inputs: &[Option<Slot>],
        outputs: &[Option<Slot>],
        attrs: BTreeMap<String, Attr>,
        out: &mut Vec<Node>,
    ) -> Result<()> {
        if self.nested >= MOST_NESTED {
            return Err(self.malformed(
                place,
                format!(
                    "calls functions within functions, {MOST_NESTED} deep; does {} call itself?",
                    Quoted::new(&function.name)
                ),
            ));
        }
        if inputs.len() > function.input.len() || outputs.len() > function.output.len() {
            return Err(self.malformed(
                place,
                format!(
                    "expected at most {} inputs and {} outputs, like the function, found {} and {}",
                    function.input.len(),
                    function.output.len(),
                    inputs.len(),
                    outputs.len()
                ),
            ));
        }
        let mut scope = Scope {
            closed: true,
            ..Scope::default()
        };
        for default in &function.attribute_proto {
            let value = self.attribute(default, &place)?;
            if let Some(value) = value {
                scope.attrs.insert(default.name.clone(), value);
            }
        }
        scope.attrs.extend(attrs);
        for (i, name) in function.input.iter().enumerate() {
            match inputs.get(i).copied().flatten() {
                Some(slot) => drop(scope.names.insert(name.clone(), slot)),
                None => drop(scope.absent.insert(name)),
            }
        }
        let mut passed = Vec::new();
        for (i, name) in function.output.iter().enumerate() {
            let Some(slot) = outputs.get(i).copied().flatten() else {
                continue;
            };
            // An output that is an input is a copy of it.
            match scope.names.get(name) {
                Some(&from) => passed.push((from, slot)),
                None => drop(scope.names.insert(name.clone(), slot)),
            }
        }
        let imports = self.opsets_of(&function.opset_import);
        let outer = match imports.is_empty() {
            true => self.opsets.clone(),
            false => std::mem::replace(&mut self.opsets, imports),
        };
        self.scopes.push(scope);
        self.nested += 1;
        let done = self.body(&function.node, out);
        self.nested -= 1;
        self.scopes.pop();
        self.opsets = outer;
        done?;
        for (from, to) in passed {
            let Some(meaning) = ops::find("", "Identity") else {
                continue;
            };
            out.push(Node {
                op: "Identity".into(),
                place: place.clone(),
                opset: NEWEST_OPSET,
                inputs: vec![Some(from)],
                outputs: vec![Some(to)],
                attrs: BTreeMap::new(),
                meaning,
            });
        }
        Ok(())
    }

    fn attributes(
        &mut self,
        proto: &NodeProto,
        place: &Location,
    ) -> Result<BTreeMap<String, Attr>> {
        let mut attrs = BTreeMap::new();
        for attribute in &proto.attribute {
            let value = if attribute.ref_attr_name.is_empty() {
                self.attribute(attribute, place)?
            } else {
                let scope = self.scopes.iter().rev().find(|s| s.closed);
                scope.and_then(|s| s.attrs.get(&attribute.ref_attr_name).cloned())
            };
            if let Some(value) = value
                && attrs.insert(attribute.name.clone(), value).is_some()
            {
                let name = Quoted::new(&attribute.name);
                return Err(
                    self.malformed(place.clone(), format!("has the attribute {name} twice"))
                );
            }
        }
        Ok(attrs)
    }

    fn attribute(&mut self, a: &AttributeProto, place: &Location) -> Result<Option<Attr>> {
        let text = |bytes: &Bytes| String::from_utf8_lossy(bytes).into_owned();
        // The first files had no type: then the field that is filled says it.
        let kind = match a.r#type {
            0 if a.t.is_some() => ty::TENSOR,
            0 if a.g.is_some() => ty::GRAPH,
            0 if !a.ints.is_empty() => ty::INTS,
            0 if !a.floats.is_empty() => ty::FLOATS,
            0 if !a.strings.is_empty() => ty::STRINGS,
            0 if !a.s.is_empty() => ty::STRING,
            0 if a.f != 0.0 => ty::FLOAT,
            0 => ty::INT,
            known => known,
        };
        let lacks = |what: &str| {
            let name = Quoted::new(&a.name);
            self.malformed(
                place.clone(),
                format!("expected {what} in the attribute {name}, found none"),
            )
        };
        Ok(Some(match kind {
            ty::FLOAT => Attr::Float(a.f),
            ty::INT => Attr::Int(a.i),
            ty::STRING => Attr::Str(text(&a.s)),
            ty::FLOATS => Attr::Floats(a.floats.clone()),
            ty::INTS => Attr::Ints(a.ints.clone()),
            ty::STRINGS => Attr::Strs(a.strings.iter().map(text).collect()),
            ty::TENSOR => {
                let tensor = a.t.as_ref().ok_or_else(|| lacks("a tensor"))?;
                let made = data::literal(tensor, &mut self.external);
                Attr::Tensor(self.literal(place.clone(), made)?)
            }
            ty::SPARSE_TENSOR => {
                let sparse = a.sparse_tensor.as_ref();
                let sparse = sparse.ok_or_else(|| lacks("a sparse tensor"))?;
                let made = data::dense(sparse, &mut self.external);
                Attr::Tensor(self.literal(place.clone(), made)?)
            }
            ty::GRAPH => {
                let graph = a.g.as_ref().ok_or_else(|| lacks("a graph"))?;
                Attr::Graph(Arc::new(self.graph(graph, false)?))
            }
            ty::TYPE_PROTO => {
                let of = a.tp.as_ref().ok_or_else(|| lacks("a type"))?;
                Attr::Type(type_of(of))
            }
            ty::TENSORS => Attr::Other("tensors"),
            ty::GRAPHS => Attr::Other("graphs"),
            ty::SPARSE_TENSORS => Attr::Other("sparse tensors"),
            ty::TYPE_PROTOS => Attr::Other("types"),
            other => {
                let name = Quoted::new(&a.name);
                return Err(self.malformed(
                    place.clone(),
                    format!("expected a type of the attribute {name}, found number {other}"),
                ));
            }
        }))
    }
}

/// An operator with its domain.
fn named(domain: &str, op: &str) -> String {
    let op = Quoted::new(op).to_string();
    let op = op.trim_matches('"');
    match domain {
        "" => op.to_string(),
        domain => format!("{}.{op}", Quoted::new(domain).to_string().trim_matches('"')),
    }
}

fn place_of(node: &NodeProto) -> Location {
    let output = node.output.iter().find(|o| !o.is_empty());
    Location::node(&node.op_type, &node.name, output.map(String::as_str))
}
