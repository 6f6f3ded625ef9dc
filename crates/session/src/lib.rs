//! Who takes part: sender, receiver, caller, reflector, and the hub that serves many peers on one socket.
//!
//! A session is handed its endpoint as `Box<dyn Endpoint>` and knows no concrete transport, socket or clock; it runs
//! unchanged on real sockets and in virtual time. [`SoundSender`] and [`SoundReceiver`] are the two halves of a stream
//! above an endpoint; the stations put them on one: [`SendStation`], [`ReceiveStation`], [`CallStation`] (both halves,
//! with a log of every frame, for comparisons) and [`Reflector`]. A [`FrameStation`] carries an application's own frames;
//! [`Framed`] puts Medusa's framing around any endpoint, and [`StreamFraming`] says whether a stream's has it.

mod board;
mod call;
mod convert;
mod doorway;
mod framed;
mod frames;
mod framing;
mod hub;
mod player;
mod receive;
mod receiver;
mod reflector;
mod send;
mod sender;
mod station;
mod witness;

pub use board::ArrivalBoard;
pub use call::{CallConfig, CallError, CallStation, Heard, LiveCall};
pub use convert::{ConvertError, converted, converted_sink, limited};
pub use framed::{Framed, Framing};
pub use frames::{FramePeer, FramePort, FrameStation, LinkState};
pub use framing::{StreamFraming, UnknownFraming};
pub use hub::{Hub, HubConfig, HubCounters, MakeStation};
pub use receive::{MakeEndpoint, ReceiveConfig, ReceiveStation};
pub use receiver::{
    GroupFigures, Notice, OpenSink, ReceiveError, ReceiverConfig, ReceiverCounters, SoundReceiver,
};
pub use reflector::{Reflector, ReflectorConfig, ReflectorCounters, Scratch};
pub use send::SendStation;
pub use sender::{SenderConfig, SenderCounters, SentFrame, SoundSender, frames_of_a_stall};
pub use station::{OnEndpoint, Station};
pub use witness::{Passing, Witness};
