//! Expressions over the variables of a record: the conditions of SQL, and nothing that asks for more than
//! the one record.

use omniloop_core::analysis::value_of;
use omniloop_core::export::number_of;
use omniloop_core::journal::FrameRef;
use serde_json::Value;
use sqlparser::ast::{
    BinaryOperator, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, InTarget,
    UnaryOperator, Value as Literal,
};
use sqlparser::dialect::GenericDialect;
use sqlparser::parser::Parser;
use sqlparser::tokenizer::Token;

/// The longest expression.
const LEN_MAX: usize = 4 << 10;
/// The stack on which one is understood: the parser takes much of it for each level that its bound allows.
const STACK_LEN: usize = 64 << 20;

/// A condition that has been understood.
#[derive(Debug)]
pub(super) struct Condition {
    root: Node,
    /// The variables that it names, in the order in which it does.
    pub(super) variables: Vec<String>,
}

#[derive(Debug)]
enum Node {
    Known(Known),
    Variable(Variable),
    Not(Box<Node>),
    Negative(Box<Node>),
    Both(Box<Node>, Box<Node>),
    Either(Box<Node>, Box<Node>),
    Compare(Comparison, Box<Node>, Box<Node>),
    Compute(Arithmetic, Box<Node>, Box<Node>),
    IsNull(Box<Node>),
    OneOf(Box<Node>, Vec<Node>),
    Call(Function, Box<Node>),
}

#[derive(Debug)]
enum Variable {
    Tick,
    Kind,
    MonoNs,
    WallNs,
    /// A member of the payload, as `value_of` takes it.
    Member(String),
}

#[derive(Clone, Copy, Debug)]
enum Comparison {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Equal,
    NotEqual,
}

#[derive(Clone, Copy, Debug)]
enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

#[derive(Clone, Copy, Debug)]
enum Function {
    Abs,
    IsNan,
    IsFinite,
}

/// What an expression comes to. What is not there, or makes no sense, is unknown, as in SQL.
#[derive(Clone, Debug, PartialEq)]
enum Known {
    Nothing,
    Bool(bool),
    Number(f64),
    Text(String),
}

/// A record while it is looked at.
pub(super) struct Record<'r> {
    pub(super) frame: &'r FrameRef<'r>,
    pub(super) payload: &'r Value,
}

impl Condition {
    /// Understands the text, or says why not.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        if text.len() > LEN_MAX {
            return Err(format!("it has more than {LEN_MAX} bytes"));
        }
        std::thread::scope(|scope| {
            let parser = std::thread::Builder::new().stack_size(STACK_LEN);
            let parsing = parser
                .spawn_scoped(scope, || Self::parse_here(text))
                .map_err(|error| format!("no thread for it: {error}"))?;
            parsing
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    fn parse_here(text: &str) -> Result<Self, String> {
        let dialect = GenericDialect {};
        let parser = Parser::new(&dialect).try_with_sql(text);
        let mut parser = parser.map_err(|error| error.to_string())?;
        let expression = parser.parse_expr().map_err(|error| error.to_string())?;
        let rest = parser.peek_token();
        if rest.token != Token::EOF {
            return Err(format!("{rest} follows where it should end"));
        }
        let mut variables = Vec::new();
        let root = node(&expression, &mut variables)?;
        if !root.is_condition() {
            return Err("it is a value, not a condition: compare it with something".to_owned());
        }
        Ok(Self { root, variables })
    }

    /// Whether the condition holds for the record. It does not where it is unknown.
    pub(super) fn holds(&self, record: &Record<'_>) -> bool {
        self.root.value(record) == Known::Bool(true)
    }
}

fn node(expression: &Expr, variables: &mut Vec<String>) -> Result<Node, String> {
    let mut inner = |expression: &Expr| node(expression, variables).map(Box::new);
    Ok(match expression {
        Expr::Nested(nested) => *inner(nested)?,
        Expr::Value(value) => Node::Known(literal(&value.value)?),
        Expr::Identifier(name) => Node::Variable(variable(name, variables)),
        Expr::CompoundIdentifier(names) => {
            let steps: Vec<String> = names.iter().map(|name| step(&name.value)).collect();
            let name = steps.join(".");
            note(variables, &name);
            Node::Variable(Variable::Member(name))
        }
        Expr::UnaryOp { op, expr } => match op {
            UnaryOperator::Not => Node::Not(inner(expr)?),
            UnaryOperator::Minus => Node::Negative(inner(expr)?),
            UnaryOperator::Plus => *inner(expr)?,
            other => return Err(format!("{other} is not understood here")),
        },
        Expr::BinaryOp { left, op, right } => {
            let (left, right) = (inner(left)?, inner(right)?);
            match op {
                BinaryOperator::And => Node::Both(left, right),
                BinaryOperator::Or => Node::Either(left, right),
                BinaryOperator::Lt => Node::Compare(Comparison::Less, left, right),
                BinaryOperator::LtEq => Node::Compare(Comparison::LessOrEqual, left, right),
                BinaryOperator::Gt => Node::Compare(Comparison::Greater, left, right),
                BinaryOperator::GtEq => Node::Compare(Comparison::GreaterOrEqual, left, right),
                BinaryOperator::Eq => Node::Compare(Comparison::Equal, left, right),
                BinaryOperator::NotEq => Node::Compare(Comparison::NotEqual, left, right),
                BinaryOperator::Plus => Node::Compute(Arithmetic::Add, left, right),
                BinaryOperator::Minus => Node::Compute(Arithmetic::Subtract, left, right),
                BinaryOperator::Multiply => Node::Compute(Arithmetic::Multiply, left, right),
                BinaryOperator::Divide => Node::Compute(Arithmetic::Divide, left, right),
                BinaryOperator::Modulo => Node::Compute(Arithmetic::Remainder, left, right),
                other => return Err(format!("{other} is not understood here")),
            }
        }
        Expr::Between {
            expr,
            negated,
            low,
            high,
        } => {
            let above = Node::Compare(Comparison::GreaterOrEqual, inner(expr)?, inner(low)?);
            let below = Node::Compare(Comparison::LessOrEqual, inner(expr)?, inner(high)?);
            not_if(*negated, Node::Both(Box::new(above), Box::new(below)))
        }
        Expr::In {
            expr,
            target: InTarget::List(list),
            negated,
            ..
        } => {
            let value = inner(expr)?;
            let list = list.iter().map(|one| inner(one).map(|node| *node));
            not_if(
                *negated,
                Node::OneOf(value, list.collect::<Result<_, _>>()?),
            )
        }
        Expr::IsNull(expr) => Node::IsNull(inner(expr)?),
        Expr::IsNotNull(expr) => Node::Not(Box::new(Node::IsNull(inner(expr)?))),
        Expr::Function(call) => {
            let name = call.name.to_string().to_ascii_lowercase();
            let function = match name.as_str() {
                "abs" => Function::Abs,
                "is_nan" => Function::IsNan,
                "is_finite" => Function::IsFinite,
                _ => {
                    return Err(format!(
                        "no function {name}; there are abs, is_nan, is_finite"
                    ));
                }
            };
            let FunctionArguments::List(arguments) = &call.args else {
                return Err(format!("{name} takes one value"));
            };
            match arguments.args.as_slice() {
                [FunctionArg::Unnamed(FunctionArgExpr::Expr(value))] => {
                    Node::Call(function, inner(value)?)
                }
                _ => return Err(format!("{name} takes one value")),
            }
        }
        other => return Err(format!("{other} is not understood here")),
    })
}

fn not_if(negated: bool, node: Node) -> Node {
    if negated {
        Node::Not(Box::new(node))
    } else {
        node
    }
}

fn literal(value: &Literal) -> Result<Known, String> {
    Ok(match value {
        Literal::Number(text, _) => {
            let number = text.parse();
            Known::Number(number.map_err(|_| format!("{text} is no number"))?)
        }
        Literal::SingleQuotedString(text) => Known::Text(text.clone()),
        Literal::Boolean(value) => Known::Bool(*value),
        Literal::Null => Known::Nothing,
        other => return Err(format!("{other} is not understood here")),
    })
}

/// The record's own facts have plain names; in quotes these are the payload's members.
fn variable(name: &Ident, variables: &mut Vec<String>) -> Variable {
    if name.quote_style.is_none() {
        match name.value.as_str() {
            "tick" => return Variable::Tick,
            "kind" => return Variable::Kind,
            "mono_ns" => return Variable::MonoNs,
            "wall_ns" => return Variable::WallNs,
            _ => {}
        }
    }
    note(variables, &name.value);
    Variable::Member(name.value.clone())
}

fn note(variables: &mut Vec<String>, name: &str) {
    if variables.iter().all(|noted| noted != name) {
        variables.push(name.to_owned());
    }
}

/// A member's own name on the way to a nested one.
fn step(member: &str) -> String {
    member.replace('\\', "\\\\").replace('.', "\\.")
}

impl Node {
    /// Whether it comes to true, false or unknown. A variable alone may.
    fn is_condition(&self) -> bool {
        match self {
            Self::Known(known) => matches!(known, Known::Bool(_)),
            Self::Variable(Variable::Member(_))
            | Self::Not(_)
            | Self::Both(..)
            | Self::Either(..)
            | Self::Compare(..)
            | Self::IsNull(_)
            | Self::OneOf(..) => true,
            Self::Call(function, _) => matches!(function, Function::IsNan | Function::IsFinite),
            Self::Variable(_) | Self::Negative(_) | Self::Compute(..) => false,
        }
    }

    fn value(&self, record: &Record<'_>) -> Known {
        match self {
            Self::Known(known) => known.clone(),
            Self::Variable(variable) => variable.value(record),
            Self::Not(node) => match node.value(record) {
                Known::Bool(value) => Known::Bool(!value),
                _ => Known::Nothing,
            },
            Self::Negative(node) => match node.value(record) {
                Known::Number(value) => Known::Number(-value),
                _ => Known::Nothing,
            },
            Self::Both(left, right) => match (left.value(record), right.value(record)) {
                (Known::Bool(false), _) | (_, Known::Bool(false)) => Known::Bool(false),
                (Known::Bool(true), Known::Bool(true)) => Known::Bool(true),
                _ => Known::Nothing,
            },
            Self::Either(left, right) => match (left.value(record), right.value(record)) {
                (Known::Bool(true), _) | (_, Known::Bool(true)) => Known::Bool(true),
                (Known::Bool(false), Known::Bool(false)) => Known::Bool(false),
                _ => Known::Nothing,
            },
            Self::Compare(how, left, right) => {
                compare(*how, &left.value(record), &right.value(record))
            }
            Self::Compute(how, left, right) => match (left.value(record), right.value(record)) {
                (Known::Number(left), Known::Number(right)) => {
                    Known::Number(compute(*how, left, right))
                }
                _ => Known::Nothing,
            },
            Self::IsNull(node) => Known::Bool(node.value(record) == Known::Nothing),
            Self::OneOf(node, list) => {
                let value = node.value(record);
                let mut is_known = value != Known::Nothing;
                for one in list {
                    match compare(Comparison::Equal, &value, &one.value(record)) {
                        Known::Bool(true) => return Known::Bool(true),
                        Known::Bool(false) => {}
                        _ => is_known = false,
                    }
                }
                if is_known {
                    Known::Bool(false)
                } else {
                    Known::Nothing
                }
            }
            Self::Call(function, node) => match (function, node.value(record)) {
                (Function::Abs, Known::Number(value)) => Known::Number(value.abs()),
                (Function::IsNan, Known::Number(value)) => Known::Bool(value.is_nan()),
                (Function::IsFinite, Known::Number(value)) => Known::Bool(value.is_finite()),
                _ => Known::Nothing,
            },
        }
    }
}

impl Variable {
    #[expect(
        clippy::cast_precision_loss,
        reason = "compared with numbers of an expression, which are floats"
    )]
    fn value(&self, record: &Record<'_>) -> Known {
        let name = match self {
            Self::Tick => return Known::Number(record.frame.tick as f64),
            Self::MonoNs => return Known::Number(record.frame.mono_ns as f64),
            Self::WallNs => return Known::Number(record.frame.wall_ns as f64),
            Self::Kind => return Known::Text(record.frame.kind.to_string()),
            Self::Member(name) => name,
        };
        match value_of(record.payload, name) {
            Some(Value::Bool(value)) => Known::Bool(*value),
            Some(value) => match (number_of(value), value) {
                (Some(number), _) => Known::Number(number),
                (None, Value::String(text)) => Known::Text(text.clone()),
                // Lists and objects are not compared; their leaves are.
                _ => Known::Nothing,
            },
            None => Known::Nothing,
        }
    }
}

/// Numbers with numbers and text with text; NaN is unequal to every number and else unknown.
fn compare(how: Comparison, left: &Known, right: &Known) -> Known {
    let order = match (left, right) {
        (Known::Number(left), Known::Number(right)) => left.partial_cmp(right),
        (Known::Text(left), Known::Text(right)) => Some(left.cmp(right)),
        (Known::Bool(left), Known::Bool(right)) => Some(left.cmp(right)),
        (Known::Nothing, _) | (_, Known::Nothing) => return Known::Nothing,
        // A number is not a text.
        _ => None,
    };
    let does = match (how, order) {
        (Comparison::Equal, order) => order.is_some_and(std::cmp::Ordering::is_eq),
        (Comparison::NotEqual, order) => !order.is_some_and(std::cmp::Ordering::is_eq),
        (_, None) => return Known::Nothing,
        (Comparison::Less, Some(order)) => order.is_lt(),
        (Comparison::LessOrEqual, Some(order)) => order.is_le(),
        (Comparison::Greater, Some(order)) => order.is_gt(),
        (Comparison::GreaterOrEqual, Some(order)) => order.is_ge(),
    };
    Known::Bool(does)
}

fn compute(how: Arithmetic, left: f64, right: f64) -> f64 {
    match how {
        Arithmetic::Add => left + right,
        Arithmetic::Subtract => left - right,
        Arithmetic::Multiply => left * right,
        Arithmetic::Divide => left / right,
        Arithmetic::Remainder => left % right,
    }
}

#[cfg(test)]
mod tests {
    use omniloop_core::journal::FrameKind;
    use serde_json::json;

    use super::*;

    fn holds(text: &str) -> bool {
        let payload = json!({
            "loss": 2.5, "lr": 0.05, "step": 7, "mode": "auto", "done": false, "bad": "NaN", "none": null,
            "arm": {"q": [1, -2], "a.b": 3}, "tick": 99,
        });
        let text_of = payload.to_string();
        let frame = FrameRef {
            kind: FrameKind::Telemetry,
            tick: 12,
            mono_ns: 1_000,
            wall_ns: 2_000,
            offset: 0,
            payload: text_of.as_bytes(),
        };
        let record = Record {
            frame: &frame,
            payload: &payload,
        };
        let condition = Condition::parse(text).unwrap_or_else(|why| panic!("{text}: {why}"));
        condition.holds(&record)
    }

    #[test]
    fn conditions_that_hold_do_and_their_opposites_do_not() {
        for text in [
            "loss > 2 and lr < 0.1",
            "loss > 3 OR lr <= 0.05",
            "NOT loss < 2",
            "loss between 2 and 3",
            "mode = 'auto'",
            "mode in ('manual', 'auto')",
            "mode <> 'manual' and mode != 'm'",
            "loss == 2.5",
            "-loss = -2.5 and loss * 2 - 1 = 4 and step % 2 = 1",
            "abs(arm.q) is null",
            r#"abs("arm.q.1") = 2"#,
            r#"arm."a.b" = 3"#,
            "tick = 12 and kind = 'telemetry' and mono_ns = 1000 and wall_ns = 2000",
            r#""tick" = 99"#,
            "is_nan(bad) and not is_finite(bad) and is_finite(loss)",
            "none is null and absent is null and loss is not null",
            "done = false and not done",
            "(loss > 1 and (lr > 1 or step = 7))",
        ] {
            assert!(holds(text), "{text}");
            assert!(!holds(&format!("not ({text})")), "not ({text})");
        }
    }

    #[test]
    fn what_is_not_there_is_unknown_and_so_is_its_opposite() {
        for text in [
            "absent > 1",
            "not absent > 1",
            "absent = absent",
            "bad > 1",
            "not bad > 1",
            "mode > 1",
            "absent in (1, 2)",
            "absent not in (1, 2)",
            "arm > 1",
            "none = null",
            "loss / 0 < absent",
        ] {
            assert!(!holds(text), "{text}");
        }
        let long = "loss > 1 and ".repeat(LEN_MAX / 13 - 1);
        assert!(holds(&format!("{long} step = 7")));
        assert!(holds("absent > 1 or loss > 1"));
        assert!(!holds("absent > 1 and loss > 1"));
        assert!(holds("not (absent > 1 and loss > 3)"));
    }

    #[test]
    fn what_is_no_condition_is_refused_with_a_reason() {
        for (text, why) in [
            ("", "Expected"),
            ("loss >", "Expected"),
            ("loss > 1 lr", "follows"),
            ("loss > 1; drop table x", "follows"),
            ("loss + 1", "not a condition"),
            ("tick", "not a condition"),
            ("sleep(loss)", "no function sleep"),
            ("abs(loss, lr) > 1", "one value"),
            ("exists (select 1)", "not understood"),
            ("loss in (select 1)", "not understood"),
            ("loss > (select 1)", "not understood"),
            ("mode like 'a%'", "not understood"),
            ("case when loss > 1 then true end", "not understood"),
        ] {
            let refused = Condition::parse(text).expect_err(text);
            assert!(refused.contains(why), "{text}: {refused}");
        }
        assert!(Condition::parse(&"(".repeat(LEN_MAX)).is_err());
        assert!(Condition::parse(&"not ".repeat(LEN_MAX / 4)).is_err());
        assert!(Condition::parse(&"- ".repeat(LEN_MAX / 2)).is_err());
        assert!(Condition::parse(&"x".repeat(LEN_MAX + 1)).is_err());
    }

    #[test]
    fn variables_are_noted_once_in_their_order() {
        let condition = Condition::parse("lr < 1 and (loss > 2 or lr > 0) and tick > 3").unwrap();
        assert_eq!(condition.variables, ["lr", "loss"]);
    }
}
