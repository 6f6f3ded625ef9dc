//! Pictures of another program, which an SDP file describes: on a port of their own, beside the sound's.

use std::net::SocketAddr;

use antiphon_core::WireId;
use antiphon_media::packet::{EncodingName, ExtensionIds};
use antiphon_net::{SocketOptions, Target};
use antiphon_session::{Session, VideoFormat, VideoTie};
use antiphon_sound::SinkSpec;
use antiphon_video::VideoDescription;

use crate::run::Runner;
use crate::transport::StreamUri;
use crate::{Error, ReceiveOptions};

/// Where they come, and what is known of them.
#[derive(Clone)]
pub(crate) struct ForeignPictures {
    pub described: VideoDescription,
    local: SocketAddr,
    socket: SocketOptions,
}

impl ForeignPictures {
    /// Those that `options` describe, beside `sound`; `None` if there are none, or `sink` takes sound alone.
    pub fn of(sound: &StreamUri, sink: &SinkSpec, options: &ReceiveOptions) -> Result<Option<Self>, Error> {
        let Some(Ok(described)) = options.pictures.as_ref().filter(|_| sink.film().is_some()) else {
            return Ok(None);
        };
        let refuse = |why: String| Err(Error::usage(format!("the pictures of the SDP file: {why}")));
        if sound.transport.profile_of("").message_overhead > 0 || matches!(sound.target, Target::Call(_)) {
            return refuse(
                "they come over plain RTP to where this listens, beside the sound: write rtp://:PORT".into(),
            );
        }
        if options.video_over.is_some() || !options.also.is_empty() {
            return refuse("they have a port of their own: omit --video-over and --also".into());
        }
        let Some(port) = described.port else {
            return refuse("their port is not in it".into());
        };
        let group = described.address.filter(|address| address.is_multicast());
        let local = SocketAddr::new(group.unwrap_or(sound.address().ip()), port);
        let sound = sound.address();
        if local.port() == sound.port() && (local.ip() == sound.ip() || group.is_none()) {
            return refuse(format!(
                "they have the sound's port {port}, where they cannot be told apart: have the sender use another one"
            ));
        }
        let mut socket = options.socket.clone();
        let source = options.description.as_ref().and_then(|description| description.source);
        socket.multicast.source = socket.multicast.source.or(source);
        Ok(Some(ForeignPictures { described: described.clone(), local, socket }))
    }

    /// Why those that `options` describe are not received, in a sentence.
    pub fn left_out(options: &ReceiveOptions, received: bool) -> Option<String> {
        match options.pictures.as_ref()? {
            Err(error) => Some(format!("the SDP file's pictures are not received: {error}")),
            Ok(_) if received => None,
            Ok(_) => Some(
                "the SDP file tells of pictures as well, which are not received: record both into one file, NAME.mkv, or watch them with \
                 player:"
                    .into(),
            ),
        }
    }

    /// Where they come, for the user.
    pub fn text(&self) -> String {
        format!("rtp://{}", self.local)
    }

    /// Opens their port and that of their RTCP, on two wires from `first` on, and has `session` receive them.
    pub fn listen(&self, runner: &mut Runner, session: &mut Session, first: WireId) -> Result<(), Error> {
        let encoding = self.described.codec.encoding_name();
        let format = VideoFormat {
            encoding: EncodingName::new(encoding).expect("it is a short word"),
            payload_type: self.described.payload_type,
            extensions: ExtensionIds {
                ntp: self.described.ntp,
                marking: self.described.marking,
                ..ExtensionIds::NONE
            },
        };
        runner.listen_for_video_session(first, (self.local, &self.socket), session, format)
    }

    /// That none came, in a sentence. `other_types`: packets under another payload type.
    pub fn never_came(&self, other_types: u64) -> String {
        let why = match other_types {
            0 => String::new(),
            _ => format!(
                ": {other_types} packets have another payload type than {}, which the SDP file tells",
                self.described.payload_type
            ),
        };
        format!("no pictures came to {}{why}", self.text())
    }
}

/// What the user was told of how pictures are tied to the sound.
#[derive(Default)]
pub(crate) struct ForeignNews(Option<VideoTie>);

impl ForeignNews {
    /// What has changed, in a sentence.
    pub fn look(&mut self, now: Option<VideoTie>) -> Option<String> {
        let before = std::mem::replace(&mut self.0, now);
        match now {
            Some(VideoTie::Arrivals) if before != now => Some(
                "the sender's RTCP reports do not tell which sound and pictures belong together: they are put together as they arrive".into(),
            ),
            Some(VideoTie::Reports) if before == Some(VideoTie::Arrivals) => {
                Some("sound and pictures are put together by the sender's RTCP reports from now on".into())
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_tie_is_told_once() {
        let mut news = ForeignNews::default();
        assert_eq!(news.look(None), None);
        assert!(news.look(Some(VideoTie::Arrivals)).is_some_and(|told| told.contains("as they arrive")));
        assert_eq!(news.look(Some(VideoTie::Arrivals)), None);
        assert!(news.look(Some(VideoTie::Reports)).is_some());
        assert_eq!(news.look(Some(VideoTie::Reports)), None);
        assert_eq!(ForeignNews::default().look(Some(VideoTie::Reports)), None, "as it should be");
    }
}
