//! Setups that cannot be.

use super::*;
