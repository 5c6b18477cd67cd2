//! Values that may be anything: one of an unexpected type is as good as none, so that an odd field does
//! not cost a line.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::wire::Block;

/// A string; empty where there is none.
#[derive(Default, Clone)]
pub struct Str<'a>(pub Cow<'a, str>);

impl std::ops::Deref for Str<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

/// A truth value; false where there is none.
#[derive(Default, Clone, Copy)]
pub struct Flag(pub bool);

/// A token count.
#[derive(Default, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Count {
    #[default]
    Absent,
    Tokens(u64),
    /// Negative, no integer, or over [`MAX_TOKENS`].
    Bad,
}

/// An object; `None` where there is none.
pub struct Object<T>(pub Option<T>);

/// An array; empty where there is none.
pub struct List<T>(pub Vec<T>);

/// Content: a text, or blocks.
#[derive(Default)]
pub enum Body<'a> {
    #[default]
    None,
    Text(Cow<'a, str>),
    Blocks(Vec<Block<'a>>),
}

impl<T> Default for Object<T> {
    fn default() -> Self {
        Object(None)
    }
}

impl<T> Default for List<T> {
    fn default() -> Self {
        List(Vec::new())
    }
}

/// Counts above this are no counts (docs/decisions.md 30).
pub const MAX_TOKENS: u64 = 1_000_000_000;

impl Count {
    /// The count, if it is one.
    pub fn tokens(self) -> Option<u64> {
        match self {
            Count::Tokens(tokens) => Some(tokens),
            Count::Absent | Count::Bad => None,
        }
    }

    fn from_f64(value: f64) -> Count {
        if value.fract() == 0.0 && (0.0..=MAX_TOKENS as f64).contains(&value) {
            Count::Tokens(value as u64)
        } else {
            Count::Bad
        }
    }
}

/// Skips the rest of an array, for visitors that have no use for it.
fn skip_seq<'de, A: SeqAccess<'de>>(mut seq: A) -> Result<(), A::Error> {
    while seq.next_element::<IgnoredAny>()?.is_some() {}
    Ok(())
}

/// Skips the rest of an object.
fn skip_map<'de, A: MapAccess<'de>>(mut map: A) -> Result<(), A::Error> {
    while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
    Ok(())
}

/// The methods of a visitor for values that stand for "nothing".
macro_rules! nothing {
    ($nothing:expr; $($value:ident),*) => { $(nothing!(@ $nothing, $value);)* };
    (@ $nothing:expr, unit) => {
        fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
            Ok($nothing)
        }
    };
    (@ $nothing:expr, bool) => {
        fn visit_bool<E: Error>(self, _: bool) -> Result<Self::Value, E> {
            Ok($nothing)
        }
    };
    (@ $nothing:expr, number) => {
        fn visit_u64<E: Error>(self, _: u64) -> Result<Self::Value, E> {
            Ok($nothing)
        }
        fn visit_i64<E: Error>(self, _: i64) -> Result<Self::Value, E> {
            Ok($nothing)
        }
        fn visit_f64<E: Error>(self, _: f64) -> Result<Self::Value, E> {
            Ok($nothing)
        }
    };
    (@ $nothing:expr, str) => {
        fn visit_str<E: Error>(self, _: &str) -> Result<Self::Value, E> {
            Ok($nothing)
        }
    };
    (@ $nothing:expr, seq) => {
        fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Self::Value, A::Error> {
            skip_seq(seq).map(|()| $nothing)
        }
    };
    (@ $nothing:expr, map) => {
        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
            skip_map(map).map(|()| $nothing)
        }
    };
}

/// The one method of a visitor that no value of JSON fails.
macro_rules! expecting {
    ($what:literal) => {
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str($what)
        }
    };
}

impl<'de: 'a, 'a> Deserialize<'de> for Str<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct V<'a>(PhantomData<&'a ()>);
        impl<'de: 'a, 'a> Visitor<'de> for V<'a> {
            type Value = Str<'a>;
            expecting!("a string");
            fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Str<'a>, E> {
                Ok(Str(Cow::Borrowed(text)))
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Str<'a>, E> {
                Ok(Str(Cow::Owned(text.to_owned())))
            }
            fn visit_u64<E: Error>(self, number: u64) -> Result<Str<'a>, E> {
                Ok(Str(Cow::Owned(number.to_string())))
            }
            fn visit_i64<E: Error>(self, number: i64) -> Result<Str<'a>, E> {
                Ok(Str(Cow::Owned(number.to_string())))
            }
            fn visit_f64<E: Error>(self, number: f64) -> Result<Str<'a>, E> {
                Ok(Str(Cow::Owned(number.to_string())))
            }
            nothing!(Str::default(); unit, bool, seq, map);
        }
        deserializer.deserialize_any(V(PhantomData))
    }
}

impl<'de> Deserialize<'de> for Flag {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct V;
        impl<'de> Visitor<'de> for V {
            type Value = Flag;
            expecting!("true or false");
            fn visit_bool<E: Error>(self, value: bool) -> Result<Flag, E> {
                Ok(Flag(value))
            }
            nothing!(Flag(false); unit, number, str, seq, map);
        }
        deserializer.deserialize_any(V)
    }
}

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct V;
        impl<'de> Visitor<'de> for V {
            type Value = Count;
            expecting!("a token count");
            fn visit_u64<E: Error>(self, value: u64) -> Result<Count, E> {
                Ok(if value <= MAX_TOKENS { Count::Tokens(value) } else { Count::Bad })
            }
            fn visit_i64<E: Error>(self, value: i64) -> Result<Count, E> {
                u64::try_from(value).map_or(Ok(Count::Bad), |value| self.visit_u64(value))
            }
            fn visit_f64<E: Error>(self, value: f64) -> Result<Count, E> {
                Ok(Count::from_f64(value))
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Count, E> {
                Ok(text.trim().parse().map_or(Count::Bad, Count::from_f64))
            }
            fn visit_unit<E: Error>(self) -> Result<Count, E> {
                Ok(Count::Absent)
            }
            nothing!(Count::Bad; bool, seq, map);
        }
        deserializer.deserialize_any(V)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct V<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for V<T> {
            type Value = Object<T>;
            expecting!("an object");
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Object<T>, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(|value| Object(Some(value)))
            }
            nothing!(Object(None); unit, bool, number, str, seq);
        }
        deserializer.deserialize_any(V(PhantomData))
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for List<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct V<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for V<T> {
            type Value = List<T>;
            expecting!("an array");
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<List<T>, A::Error> {
                let mut items = Vec::new();
                while let Some(item) = seq.next_element()? {
                    items.push(item);
                }
                Ok(List(items))
            }
            nothing!(List(Vec::new()); unit, bool, number, str, map);
        }
        deserializer.deserialize_any(V(PhantomData))
    }
}

/// An element of a content array: a block, or a bare string as some proxies write it.
struct Element<'a>(Option<Block<'a>>);

impl<'de: 'a, 'a> Deserialize<'de> for Element<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Element(match Body::deserialize(deserializer)? {
            Body::Blocks(mut blocks) if blocks.len() == 1 => blocks.pop(),
            Body::Text(text) => {
                Some(Block { kind: Str(Cow::Borrowed("text")), text: Str(text), ..Block::default() })
            }
            Body::Blocks(_) | Body::None => None,
        }))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Body<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct V<'a>(PhantomData<&'a ()>);
        impl<'de: 'a, 'a> Visitor<'de> for V<'a> {
            type Value = Body<'a>;
            expecting!("a text or content blocks");
            fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Body<'a>, E> {
                Ok(Body::Text(Cow::Borrowed(text)))
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Body<'a>, E> {
                Ok(Body::Text(Cow::Owned(text.to_owned())))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Body<'a>, A::Error> {
                let mut blocks = Vec::new();
                while let Some(Element(block)) = seq.next_element()? {
                    blocks.extend(block);
                }
                Ok(Body::Blocks(blocks))
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Body<'a>, A::Error> {
                Block::deserialize(MapAccessDeserializer::new(map)).map(|block| Body::Blocks(vec![block]))
            }
            nothing!(Body::None; unit, bool, number);
        }
        deserializer.deserialize_any(V(PhantomData))
    }
}

#[cfg(test)]
mod tests {
    use super::super::wire::Line;
    use super::{Body, Count};

    #[test]
    fn odd_types_cost_a_field_and_not_the_line() {
        let text = r#"{"type":"user","uuid":7,"isMeta":"yes","message":"gone","timestamp":null,"origin":[1],"data":3}"#;
        let line: Line<'_> = serde_json::from_str(text).unwrap();
        assert_eq!((&*line.kind, &*line.uuid, &*line.timestamp), ("user", "7", ""));
        assert!(
            !line.is_meta.0 && line.message.0.is_none() && line.origin.0.is_none() && line.data.0.is_none()
        );
    }

    #[test]
    fn counts_are_read_from_numbers_and_numeric_strings() {
        for (text, count) in [
            ("12", Count::Tokens(12)),
            ("\" 12 \"", Count::Tokens(12)),
            ("12.0", Count::Tokens(12)),
            ("1000000000", Count::Tokens(1_000_000_000)),
            ("null", Count::Absent),
            ("1000000001", Count::Bad),
            ("-1", Count::Bad),
            ("1.5", Count::Bad),
            ("\"NaN\"", Count::Bad),
            ("\"many\"", Count::Bad),
            ("[1]", Count::Bad),
        ] {
            assert_eq!(serde_json::from_str::<Count>(text).unwrap(), count, "{text}");
        }
    }

    #[test]
    fn content_is_borrowed_where_it_has_no_escapes() {
        let line: Line<'_> = serde_json::from_str(r#"{"message":{"content":"plain"}}"#).unwrap();
        let Some(message) = line.message.0 else { panic!("no message") };
        assert!(matches!(message.content, Body::Text(std::borrow::Cow::Borrowed("plain"))));
    }
}
