//! A TOML value as serde reads it, with mistakes that know their place. The crate `toml` reads as
//! well, but its errors are texts.

use serde::Deserializer;
use serde::de::value::MapAccessDeserializer;
use serde::de::{
    DeserializeOwned, DeserializeSeed, IntoDeserializer, MapAccess, SeqAccess, Visitor,
};
use serde::forward_to_deserialize_any;
use toml::Value;

use crate::mistake::{Mistake, Step};

pub(crate) fn read<T: DeserializeOwned>(value: Value) -> Result<T, Mistake> {
    T::deserialize(Reader(value))
}

struct Reader(Value);

/// The keys of a table with their values.
struct Entries {
    left: toml::map::IntoIter<String, Value>,
    /// The entry whose key was read last.
    current: Option<(String, Value)>,
}

/// The items of a list.
struct Items(std::iter::Enumerate<std::vec::IntoIter<Value>>);

impl Entries {
    fn new(table: toml::Table) -> Self {
        Self { left: table.into_iter(), current: None }
    }

    /// Checks that nothing is left over.
    fn end(mut self) -> Result<(), Mistake> {
        match self.left.next() {
            None => Ok(()),
            Some((key, _)) => Err(Mistake::left_over("key").below(Step::Key(key))),
        }
    }
}

impl Items {
    /// Checks that nothing is left over.
    fn end(mut self) -> Result<(), Mistake> {
        match self.0.next() {
            None => Ok(()),
            Some((index, _)) => Err(Mistake::left_over("item").below(Step::Item(index))),
        }
    }
}

impl<'de> Deserializer<'de> for Reader {
    type Error = Mistake;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        match self.0 {
            Value::String(text) => visitor.visit_string(text),
            Value::Integer(number) => visitor.visit_i64(number),
            Value::Float(number) => visitor.visit_f64(number),
            Value::Boolean(is_so) => visitor.visit_bool(is_so),
            Value::Datetime(date) => visitor.visit_string(date.to_string()),
            Value::Array(items) => {
                let mut items = Items(items.into_iter().enumerate());
                let read = visitor.visit_seq(&mut items)?;
                items.end().map(|()| read)
            }
            Value::Table(table) => {
                let mut entries = Entries::new(table);
                let read = visitor.visit_map(&mut entries)?;
                entries.end().map(|()| read)
            }
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Mistake> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _words: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Mistake> {
        match self.0 {
            Value::String(word) => visitor.visit_enum(word.into_deserializer()),
            Value::Table(table) => {
                let mut entries = Entries::new(table);
                let read = visitor.visit_enum(MapAccessDeserializer::new(&mut entries))?;
                entries.end().map(|()| read)
            }
            other => Self(other).deserialize_any(visitor),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

impl<'de> MapAccess<'de> for Entries {
    type Error = Mistake;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Mistake> {
        self.current = self.left.next();
        let Some((key, _)) = &self.current else { return Ok(None) };
        let read = seed.deserialize(key.as_str().into_deserializer());
        read.map(Some).map_err(|mistake: Mistake| mistake.below(Step::Key(key.clone())))
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Mistake> {
        let (key, value) = self.current.take().expect("serde reads a key before its value");
        seed.deserialize(Reader(value)).map_err(|mistake| mistake.below(Step::Key(key)))
    }
}

impl<'de> SeqAccess<'de> for Items {
    type Error = Mistake;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Mistake> {
        let Some((index, item)) = self.0.next() else { return Ok(None) };
        let read = seed.deserialize(Reader(item));
        read.map(Some).map_err(|mistake| mistake.below(Step::Item(index)))
    }
}
