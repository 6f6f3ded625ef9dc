//! What a receiver looks at while the stream comes, and what it tells at the end.

use std::sync::mpsc;

use antiphon_core::{BrokenReason, Instant};
use antiphon_net::{OsClock, Stop};
use antiphon_session::VideoEnd;

use super::{Ended, Listed, ReceiveStatus, Recording, Shown, Snapshot, describe_notice};
use crate::ReceiveOptions;
use crate::complete::Listening;
use crate::data::DataReceived;
use crate::pictures::{ForeignNews, ForeignPictures, FurtherPictures, VideoOver};
use crate::programmes::Programmes;
use crate::send::{ANSWER_PATIENCE, SILENCE};
use crate::standstill::{self, Standstill};

/// Who is told of what happens, and of the state.
type Tells<'a> = (&'a mut dyn FnMut(String), &'a mut dyn FnMut(&ReceiveStatus));

/// What the caller's thread keeps while it looks.
pub(super) struct Watched<'a> {
    options: &'a ReceiveOptions,
    clock: OsClock,
    /// Whether the user wants the end, and what ends the stream alone.
    stop: &'a Stop,
    stream_stop: &'a Stop,
    /// Of a sender that is called: whether it is called for ever.
    calls: Option<bool>,
    pub completing: Option<Listening>,
    listed: mpsc::Receiver<Programmes>,
    last: ReceiveStatus,
    /// When a packet last came.
    heard: Instant,
    pub gave_up: bool,
    pub unanswered: Option<BrokenReason>,
    /// Why the programme that was wished for first is not to be had.
    pub unwanted: Option<String>,
    pub programmes: Option<Programmes>,
    tied: ForeignNews,
    standstill: Standstill,
}

impl<'a> Watched<'a> {
    pub fn new(
        options: &'a ReceiveOptions,
        clock: OsClock,
        (stop, stream_stop): (&'a Stop, &'a Stop),
        calls: Option<bool>,
        completing: Option<Listening>,
        listed: mpsc::Receiver<Programmes>,
    ) -> Self {
        Watched {
            options,
            clock,
            stop,
            stream_stop,
            calls,
            completing,
            listed,
            last: ReceiveStatus::default(),
            heard: clock.now(),
            gave_up: false,
            unanswered: None,
            unwanted: None,
            programmes: None,
            tied: ForeignNews::default(),
            standstill: Standstill::new(&clock),
        }
    }

    /// Looks at a snapshot, tells what is new, and ends the stream where it is time.
    pub fn look(&mut self, snapshot: Option<Snapshot>, shown: &mut Shown, (notice, status): Tells<'_>) {
        if self.stop.is_asked() {
            self.stream_stop.ask();
        }
        if let Some(stood) = self.standstill.look(&self.clock) {
            notice(standstill::sentence(stood));
            // Nobody was silent while nobody listened.
            self.heard = self.clock.now();
        }
        let Some(snapshot) = snapshot else { return };
        let before = self.last.packets_received;
        self.last = shown.look(&snapshot, notice);
        if self.last.packets_received != before {
            self.heard = self.clock.now();
        }
        self.give_up();
        if let Some(sentence) = snapshot.notice.map(describe_notice) {
            notice(sentence);
        }
        self.tied.look(snapshot.video_tie).into_iter().for_each(&mut *notice);
        let since_start = self.clock.now().since(Instant::ZERO);
        if self.options.length.is_some_and(|limit| since_start >= limit) {
            self.stream_stop.ask();
        }
        self.hear_of_programmes(notice);
        let absent = snapshot.unanswered.is_some() && since_start > ANSWER_PATIENCE;
        if self.calls == Some(false) && absent && !self.stream_stop.is_asked() {
            self.unanswered = snapshot.unanswered;
            self.stream_stop.ask();
        }
        status(&self.last);
    }

    /// Ends a stream of which nothing has come for long.
    fn give_up(&mut self) {
        // Its sender calls after the stream: its goodbye was lost.
        let silence = self.clock.now().since(self.heard);
        if self.completing.as_mut().is_some_and(Listening::is_offered) && silence >= SILENCE {
            self.stream_stop.ask();
        }
        let patience = self.options.give_up;
        if patience.is_some_and(|patience| silence >= patience) && !self.stream_stop.is_asked() {
            self.gave_up = true;
            self.stream_stop.ask();
        }
    }

    fn hear_of_programmes(&mut self, notice: &mut dyn FnMut(String)) {
        for list in self.listed.try_iter() {
            let wish = self.options.programme.wish();
            // A first wish that is refused is an error of the command; a later one leaves what is heard.
            let first = self.programmes.is_none();
            self.unwanted = list.refusal().filter(|_| first).or(self.unwanted.take());
            let news = list.news(self.programmes.as_ref(), wish.is_some());
            news.filter(|_| self.unwanted.is_none()).into_iter().for_each(&mut *notice);
            self.programmes = Some(list);
        }
        if self.unwanted.is_some() {
            self.stream_stop.ask();
        }
        self.last.programmes.clone_from(&self.programmes);
    }
}

/// What is told at the end.
pub(super) struct Ending<'a> {
    pub options: &'a ReceiveOptions,
    /// What became of pictures that have a transport of their own.
    pub video_end: Option<VideoEnd>,
    pub foreign: Option<ForeignPictures>,
    pub video_over: Option<VideoOver>,
    /// Whether nothing is to be missing.
    pub records: bool,
    pub last: &'a ReceiveStatus,
    pub stop: &'a Stop,
}

impl Ending<'_> {
    /// Tells what a recording and the data miss; returns the notes, the recording, and a sentence if nothing was to be missing.
    pub fn tell(
        self,
        ended: Ended,
        shown: Shown,
        completing: Option<Listening>,
        notice: &mut dyn FnMut(String),
    ) -> (Vec<String>, Option<Recording>, Option<String>) {
        let Ended { mut notes, notices, files, last: snapshot, mut written, .. } = ended;
        let Ending { options, video_end, foreign, video_over, records, last, stop } = self;
        let notices = notices.into_iter().map(describe_notice);
        notices.chain(files).chain(options.socket.allow.note()).for_each(&mut *notice);
        let completing = completing.filter(|_| !stop.is_asked());
        let mut listed = Listed { notes: &mut notes, notice, stop };
        let recording = listed.recording(shown.sinks, written.as_mut(), completing);
        let shortfall = recording.as_ref().filter(|_| records).and_then(Recording::shortfall);
        let pictures = recording.as_ref().zip(last.pictures).filter(|_| records);
        let shortfall =
            shortfall.or_else(|| pictures.and_then(|(file, pictures)| pictures.shortfall(&file.file)));
        let pictures = last.pictures.zip(video_over.as_ref());
        let cut_short = pictures.and_then(|(pictures, over)| pictures.cut_short(video_end, &over.text()));
        let never_came = foreign.filter(|_| snapshot.video_end == Some(VideoEnd::NeverCame));
        let never_came = never_came.map(|pictures| pictures.never_came(snapshot.video_of_other_types));
        let cut_short = cut_short.or(never_came);
        if !records {
            cut_short.iter().cloned().for_each(&mut *listed.notice);
        }
        let shortfall = shortfall.or(cut_short.filter(|_| records));
        let unseen = last.pictures.filter(|_| recording.is_none()).and_then(|pictures| pictures.unseen());
        unseen.into_iter().for_each(&mut *listed.notice);
        let removed = recording.as_ref().filter(|recording| !recording.file.exists());
        let shortfall = shortfall.or_else(|| {
            removed.map(|one| {
                format!("'{}' was removed while it was recorded: its sound is gone", one.file.display())
            })
        });
        let further = last.further_pictures.iter().filter_map(FurtherPictures::shortfall);
        let mut further = further.filter(|_| records);
        let shortfall = shortfall.or_else(|| further.next());
        further.for_each(&mut *listed.notice);
        let mut holes = last.data.iter().filter_map(DataReceived::shortfall);
        let shortfall = shortfall.or_else(|| holes.next());
        // The first one is the command's error.
        holes.for_each(&mut *listed.notice);
        (notes, recording, shortfall)
    }
}
