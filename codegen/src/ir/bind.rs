//! Arguments of a kernel that become constants.

use super::{Id, Kernel, Op, Src};

impl Kernel {
    /// The same kernel with these values as constants. `values` has one entry for each non-buffer argument; `None`
    /// keeps it an argument with the same number. The nodes and their order equal those of a kernel built with
    /// these constants.
    pub fn bound(&self, values: &[Option<u64>]) -> Kernel {
        let mut graph = super::Graph::new();
        let mut new: Vec<Id> = Vec::with_capacity(self.graph.len());
        for n in 0..self.graph.len() as u32 {
            let node = self.graph.node(Id(n));
            let value = match node.op {
                Op::Var { slot, .. } => values.get(usize::from(slot)).copied().flatten(),
                _ => None,
            };
            let made = match value {
                Some(bits) => graph.bits(node.dtype, bits),
                None => {
                    let src: Src = node.src.iter().map(|s| new[s.0 as usize]).collect();
                    graph.add(node.op, node.dtype, &src)
                }
            };
            new.push(made);
        }
        let open = values.iter().any(Option::is_none);
        Kernel {
            name: self.name.clone(),
            graph,
            sink: new[self.sink.0 as usize],
            params: self.params.clone(),
            vars: if open { self.vars } else { 0 },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Binary, Graph, ParamInfo, RangeKind, StoreMode, print::print};
    use super::*;
    use crate::dtype::DType;

    /// `out[i] = in[i] * a + b`, where `a` and `b` are made by the caller.
    fn kernel(make: impl Fn(&mut Graph, u16) -> Id, vars: u16) -> Kernel {
        let mut g = Graph::new();
        let (input, out) = (g.param(0, DType::F32), g.param(1, DType::F32));
        let i = g.range(0, 8, RangeKind::Loop);
        let x = g.load(input, i);
        let a = make(&mut g, 0);
        let product = g.binary(Binary::Mul, x, a);
        let b = make(&mut g, 1);
        let sum = g.binary(Binary::Add, product, b);
        let store = g.store(StoreMode::Set, out, i, sum, None);
        let sink = g.sink(&[store]);
        let param = |written| ParamInfo {
            dtype: DType::F32,
            len: 8,
            written,
            constant: false,
        };
        Kernel {
            name: "k".into(),
            graph: g,
            sink,
            params: vec![param(false), param(true)],
            vars,
        }
    }

    #[test]
    fn bound_arguments_are_constants_in_the_same_places() {
        let bits = [2.5f32, -1.0].map(|x| u64::from(x.to_bits()));
        let open = kernel(|g, slot| g.argument(slot, DType::F32), 2);
        let made = kernel(|g, slot| g.bits(DType::F32, bits[usize::from(slot)]), 0);
        let text = |k: &Kernel| print(&k.graph, k.sink);
        let bound = open.bound(&bits.map(Some));
        assert_eq!(text(&bound), text(&made));
        assert_eq!((bound.vars, bound.graph.len()), (0, made.graph.len()));
        let half = open.bound(&[Some(bits[0]), None]);
        assert_eq!(half.vars, 2);
        let text = text(&half);
        assert!(text.contains("v1") && !text.contains("v0"), "{text}");
        // Two arguments of one value become one constant.
        let equal = open.bound(&[Some(bits[0]); 2]);
        assert_eq!(equal.graph.len() + 1, made.graph.len());
    }
}
