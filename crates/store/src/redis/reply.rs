//! Reading what servers and scripts answer.

use redis::{FromRedisValue, Value};

use crate::contract::{Lineage, StoreError};

/// The answer is not what was asked for: the keys are not ours, or the server is another one than we know.
pub(super) fn strange() -> StoreError {
    StoreError::Permanent("Redis answered something strange".into())
}

/// An answer, or a part of one.
pub(super) fn read<T: FromRedisValue>(value: Value) -> Result<T, StoreError> {
    redis::from_redis_value(value).map_err(|_| strange())
}

/// The parts of an answer, one after the other.
pub(super) struct Parts(std::vec::IntoIter<Value>);

impl Parts {
    pub(super) fn of(value: Value) -> Result<Self, StoreError> {
        match value {
            Value::Array(parts) => Ok(Self(parts.into_iter())),
            _ => Err(strange()),
        }
    }

    pub(super) fn next<T: FromRedisValue>(&mut self) -> Result<T, StoreError> {
        read(self.next_value()?)
    }

    pub(super) fn next_value(&mut self) -> Result<Value, StoreError> {
        self.0.next().ok_or_else(strange)
    }

    pub(super) fn rest(self) -> std::vec::IntoIter<Value> {
        self.0
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.as_slice().is_empty()
    }
}

/// A lineage as scripts write it.
pub(super) fn lineage_of(digits: &str) -> Result<Lineage, StoreError> {
    u128::from_str_radix(digits, 16).map(Lineage).map_err(|_| strange())
}

/// A lineage as scripts read it.
pub(super) fn digits_of(lineage: Lineage) -> String {
    format!("{:032x}", lineage.0)
}
