//! Generators of traffic against their definitions.

use super::*;
