//! Writes models, such as a trained network.

use prost::Message;

use super::data;
use super::elem::Elem;
use super::proto::{
    AttributeProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, ValueInfoProto,
    attribute_type,
};
use super::types::{Dim, Type, type_proto};
use super::value::Value;
use crate::error::Result;
use crate::graph::Tensor;

/// Version of the file format that is written; the first that has every operator set up to 21.
const IR_VERSION: i64 = 10;

/// A model being written, node after node.
#[derive(Debug, Default)]
pub struct Writer {
    model: ModelProto,
    graph: GraphProto,
}

impl Writer {
    /// A model of a version of the default operator set.
    pub fn new(name: &str, opset: i64) -> Writer {
        let mut writer = Writer::default();
        writer.graph.name = name.into();
        writer.model = ModelProto {
            ir_version: IR_VERSION,
            producer_name: "doorbell".into(),
            producer_version: env!("CARGO_PKG_VERSION").into(),
            ..ModelProto::default()
        };
        writer.import("", opset);
        writer
    }

    /// Uses another operator set as well.
    pub fn import(&mut self, domain: &str, version: i64) {
        self.model.opset_import.push(OperatorSetIdProto {
            domain: domain.into(),
            version,
        });
    }

    /// Declares an input.
    pub fn input(&mut self, name: &str, ty: &Type) {
        self.graph.input.push(port(name, ty));
    }

    /// Declares an output.
    pub fn output(&mut self, name: &str, ty: &Type) {
        self.graph.output.push(port(name, ty));
    }

    /// Adds a constant.
    ///
    /// # Errors
    /// From the device that has it.
    pub fn constant(&mut self, name: &str, tensor: &Tensor) -> Result<()> {
        if let Some(literal) = Value::from(tensor.clone()).literal()? {
            self.graph.initializer.push(data::to_proto(name, &literal));
        }
        Ok(())
    }

    /// Adds a node of the default operator set, after those that make its inputs.
    pub fn node(
        &mut self,
        op: &str,
        inputs: &[&str],
        outputs: &[&str],
        attributes: impl IntoIterator<Item = AttributeProto>,
    ) {
        let own = |names: &[&str]| names.iter().map(|n| n.to_string()).collect();
        self.graph.node.push(NodeProto {
            op_type: op.into(),
            input: own(inputs),
            output: own(outputs),
            attribute: attributes.into_iter().collect(),
            ..NodeProto::default()
        });
    }

    /// The graph, as an attribute of a node can hold it.
    pub fn into_graph(self) -> GraphProto {
        self.graph
    }

    /// The bytes of the file.
    pub fn finish(mut self) -> Vec<u8> {
        self.model.graph = Some(self.graph);
        self.model.encode_to_vec()
    }
}

/// An integer attribute.
pub fn int(name: &str, value: i64) -> AttributeProto {
    AttributeProto {
        name: name.into(),
        r#type: attribute_type::INT,
        i: value,
        ..AttributeProto::default()
    }
}

/// A list of integers.
pub fn ints(name: &str, values: &[i64]) -> AttributeProto {
    AttributeProto {
        name: name.into(),
        r#type: attribute_type::INTS,
        ints: values.to_vec(),
        ..AttributeProto::default()
    }
}

/// A number attribute.
pub fn float(name: &str, value: f32) -> AttributeProto {
    AttributeProto {
        name: name.into(),
        r#type: attribute_type::FLOAT,
        f: value,
        ..AttributeProto::default()
    }
}

/// A string attribute.
pub fn string(name: &str, value: &str) -> AttributeProto {
    AttributeProto {
        name: name.into(),
        r#type: attribute_type::STRING,
        s: value.to_string().into(),
        ..AttributeProto::default()
    }
}

/// A graph attribute.
pub fn graph(name: &str, value: GraphProto) -> AttributeProto {
    AttributeProto {
        name: name.into(),
        r#type: attribute_type::GRAPH,
        g: Some(value),
        ..AttributeProto::default()
    }
}

/// A tensor of numbers with these sizes.
pub fn tensor(elem: impl Into<Elem>, dims: &[Dim]) -> Type {
    Type::Tensor(elem.into(), Some(dims.to_vec()))
}

fn port(name: &str, ty: &Type) -> ValueInfoProto {
    ValueInfoProto {
        name: name.into(),
        r#type: Some(type_proto(ty)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Engine;
    use crate::onnx::Model;
    use codegen::DType;

    #[test]
    fn what_is_written_runs() {
        let engine = Engine::reference();
        let w = Tensor::from_slice(&engine, &[1f32, 2.0, 3.0, 4.0], &[2, 2]).unwrap();
        let mut writer = Writer::new("linear", 17);
        let rows = Dim::Named("rows".into());
        writer.input("x", &tensor(DType::F32, &[rows.clone(), Dim::Fixed(2)]));
        writer.constant("w", &w).unwrap();
        writer.node("Gemm", &["x", "w"], &["y"], [int("transB", 1)]);
        writer.output("y", &tensor(DType::F32, &[rows, Dim::Fixed(2)]));
        let model = Model::from_bytes("linear", writer.finish()).unwrap();
        let x = Tensor::from_slice(&engine, &[1f32, 10.0], &[1, 2]).unwrap();
        let out = model.run([("x", x)]).unwrap();
        assert_eq!(
            out.tensor("y").unwrap().to_vec::<f32>().unwrap(),
            [21.0, 43.0]
        );
        let (name, ty) = model.inputs().next().unwrap();
        assert_eq!((name, ty.to_string().as_str()), ("x", "FLOAT [rows, 2]"));
    }
}
