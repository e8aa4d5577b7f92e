//! Graphs that a session has prepared: for inputs of certain shapes and, where needed, of certain values.
//!
//! A graph whose control flow or shapes depend on a small input (a rate, a length, a mask of a few elements) is
//! captured for the value that the input has: the input is *specialised*, its value is a constant of the graph, and
//! the graph is for runs with this value only. These inputs are determined while the graph is built, so they may
//! differ between values.

use std::collections::HashMap;
use std::sync::Arc;

use super::data::Literal;
use super::elem::Elem;
use super::error::Location;
use super::graph::Slot;
use super::value::{Array, Value};
use crate::graph::{Engine, Shape, Tensor};
use crate::jit::Frozen;

/// Graphs that a session keeps; the one that was used least recently goes first.
const MOST_PREPARED: usize = 32;

/// Elements of an input that may be specialised: integers and truths (positions, sizes, masks), and
/// floats (factors). More is data.
const MOST_INTS: usize = 64;
const MOST_FLOATS: usize = 16;

/// Graphs for other values of inputs of the same shapes that are made at once. An input that counts
/// has a new value at every run: from then on a graph has to be paid for.
const CREDIT: u32 = 8;

/// Replays that pay for one more graph. Runs with new values are not captured until then.
const PRICE: u32 = 100;

/// Whether an input may be specialised.
pub(super) fn is_guardable(tensor: &Tensor) -> bool {
    tensor.numel()
        <= match tensor.dtype().is_float() {
            true => MOST_FLOATS,
            false => MOST_INTS,
        }
}

/// What an input is, without the numbers in it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Form {
    Tensor(Shape, Elem),
    Sequence(Vec<Form>),
    Optional(Option<Box<Form>>),
}

/// The forms of all inputs.
pub(super) type Signature = Vec<(Slot, Form)>;

impl Form {
    /// The form of a value, whose tensors are added to `tensors`; strings have none.
    pub(super) fn of(value: &Value, tensors: &mut Vec<Array>) -> Option<Form> {
        Some(match value {
            Value::Tensor(array) => {
                tensors.push(array.clone());
                Form::Tensor(array.tensor.shape().to_vec(), array.elem)
            }
            Value::Sequence(items) => {
                let forms = items.iter().map(|item| Form::of(item, tensors));
                Form::Sequence(forms.collect::<Option<_>>()?)
            }
            Value::Optional(None) => Form::Optional(None),
            Value::Optional(Some(value)) => {
                Form::Optional(Some(Box::new(Form::of(value, tensors)?)))
            }
            Value::Strings(_) => return None,
        })
    }

    /// The way back, with other tensors in the same order.
    pub(super) fn value(&self, tensors: &mut impl Iterator<Item = Value>) -> Option<Value> {
        Some(match self {
            Form::Tensor(..) => tensors.next()?,
            Form::Sequence(forms) => {
                let items = forms.iter().map(|form| form.value(tensors));
                Value::Sequence(Arc::new(items.collect::<Option<_>>()?))
            }
            Form::Optional(None) => Value::Optional(None),
            Form::Optional(Some(form)) => Value::Optional(Some(Arc::new(form.value(tensors)?))),
        })
    }

    /// Number of tensors in it.
    pub(super) fn tensors(&self) -> usize {
        match self {
            Form::Tensor(..) => 1,
            Form::Sequence(forms) => forms.iter().map(Form::tensors).sum(),
            Form::Optional(form) => form.as_ref().map_or(0, |form| form.tensors()),
        }
    }
}

/// An input that a graph was specialised on.
#[derive(Clone, Debug)]
pub struct Specialised {
    /// Its name.
    pub input: String,
    /// The value that the graph is for.
    pub value: Literal,
    /// Which node needs it first.
    pub place: Location,
    /// Which of the tensors of the inputs it is.
    pub(super) tensor: usize,
}

impl Specialised {
    fn holds(&self, bytes: &[u8]) -> bool {
        matches!(&self.value, Literal::Array { bytes: own, .. } if own[..] == *bytes)
    }
}

/// A graph prepared for inputs of certain shapes, and of certain values of some.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// The inputs whose values it is for.
    pub specialised: Vec<Specialised>,
    /// Why it is evaluated at every run; `None` if captured.
    pub plain: Option<String>,
}

/// A way to run the model.
#[derive(Clone)]
pub(super) struct Plan {
    pub(super) guards: Vec<Specialised>,
    pub(super) way: Way,
    used: u64,
}

#[derive(Clone)]
pub(super) enum Way {
    /// Replayed.
    Captured(Arc<Captured>),
    /// Depends on values that are too large, for this reason: evaluated again at every run.
    Plain(String),
}

/// A captured graph.
pub(super) struct Captured {
    pub(super) frozen: Frozen,
    /// What the outputs are made of its results.
    pub(super) outputs: Vec<Output>,
}

impl Plan {
    pub(super) fn new(guards: Vec<Specialised>, way: Way) -> Plan {
        Plan {
            guards,
            way,
            used: 0,
        }
    }

    pub(super) fn describe(&self) -> Prepared {
        Prepared {
            specialised: self.guards.clone(),
            plain: match &self.way {
                Way::Captured(..) => None,
                Way::Plain(why) => Some(why.clone()),
            },
        }
    }
}

/// How an output is made of the results of a captured graph.
pub(super) enum Output {
    Result(usize, Elem),
    Known(Value),
    Sequence(Vec<Output>),
    Optional(Box<Output>),
}

impl Output {
    /// Takes the tensors on `engine` out of a value.
    pub(super) fn of(value: &Value, engine: &Engine, results: &mut Vec<Tensor>) -> Output {
        match value {
            Value::Tensor(a) if a.tensor.engine() == engine => {
                results.push(a.tensor.clone());
                Output::Result(results.len() - 1, a.elem)
            }
            Value::Sequence(items) => {
                let items = items.iter().map(|v| Output::of(v, engine, results));
                Output::Sequence(items.collect())
            }
            Value::Optional(Some(value)) => {
                Output::Optional(Box::new(Output::of(value, engine, results)))
            }
            known => Output::Known(known.clone()),
        }
    }

    pub(super) fn value(&self, results: &[Tensor]) -> Value {
        match self {
            Output::Result(i, elem) => Array {
                tensor: results[*i].clone(),
                elem: *elem,
            }
            .into(),
            Output::Known(value) => value.clone(),
            Output::Sequence(items) => {
                Value::Sequence(Arc::new(items.iter().map(|i| i.value(results)).collect()))
            }
            Output::Optional(value) => Value::Optional(Some(Arc::new(value.value(results)))),
        }
    }
}

/// The plans for inputs of the same forms, the one that was used last in front.
struct Family {
    plans: Vec<Plan>,
    /// Graphs that may still be made for other values.
    credit: u32,
    replays: u32,
}

/// All plans of a session.
#[derive(Default)]
pub(super) struct Plans {
    families: HashMap<Signature, Family>,
    uses: u64,
}

/// What there is for certain inputs.
pub(super) enum Found {
    /// A plan, which is in front now.
    Plan(Plan),
    /// Nothing; a plan should be made.
    Nothing,
    /// Nothing, and plans for other values have not paid yet.
    Unpaid,
    /// That depends on the numbers in the input tensor with this place, which are to be read.
    Depends(usize),
}

impl Plans {
    /// The plan for these inputs. `values` has what is known of the numbers in them, by their place
    /// among the tensors of the inputs: nothing is read here, since reading waits for the device and
    /// other threads wait for these plans.
    pub(super) fn find(
        &mut self,
        signature: &Signature,
        values: &HashMap<usize, Vec<u8>>,
    ) -> Found {
        self.uses += 1;
        let Some(family) = self.families.get_mut(signature) else {
            return Found::Nothing;
        };
        let mut found = None;
        'plans: for (at, plan) in family.plans.iter().enumerate() {
            for guard in &plan.guards {
                match values.get(&guard.tensor) {
                    None => return Found::Depends(guard.tensor),
                    Some(bytes) if !guard.holds(bytes) => continue 'plans,
                    Some(_) => {}
                }
            }
            found = Some(at);
            break;
        }
        let Some(at) = found else {
            return match family.credit {
                0 => Found::Unpaid,
                _ => Found::Nothing,
            };
        };
        family.plans[..=at].rotate_right(1);
        let plan = &mut family.plans[0];
        plan.used = self.uses;
        let plan = plan.clone();
        if !plan.guards.is_empty() && matches!(plan.way, Way::Captured(..)) {
            family.replays += 1;
            if family.replays.is_multiple_of(PRICE) {
                family.credit = CREDIT.min(family.credit + 1);
            }
        }
        Found::Plan(plan)
    }

    /// Adds a plan, in the place of the one that was used least recently if there are too many. That is returned: a
    /// graph that goes waits for its last run, for which others must not wait.
    #[must_use]
    pub(super) fn add(&mut self, signature: &Signature, mut plan: Plan) -> Vec<Plan> {
        let mut gone = Vec::new();
        while self.iter().count() >= MOST_PREPARED
            && let Some(oldest) = self.iter().map(|plan| plan.used).min()
        {
            self.families.retain(|_, family| {
                gone.extend(family.plans.extract_if(.., |plan| plan.used == oldest));
                !family.plans.is_empty()
            });
        }
        plan.used = self.uses;
        let family = self.families.entry(signature.clone());
        let family = family
            .and_modify(|family| family.credit = family.credit.saturating_sub(1))
            .or_insert_with(|| Family {
                plans: Vec::new(),
                credit: CREDIT,
                replays: 0,
            });
        family.plans.insert(0, plan);
        gone
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Plan> {
        self.families.values().flat_map(|family| &family.plans)
    }
}
