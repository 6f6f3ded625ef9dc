//! The laboratory: the same protocols as in the real world, in virtual time over modelled networks.
//!
//! [`tcp`] is a TCP in user space that stands for a kernel's where no kernel can be: its time is passed in, its losses
//! come from a model, and its settings reach back to the kernels of 2000.

pub mod tcp;
