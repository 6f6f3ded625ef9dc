//! The conformance suite: requirements on every transport. A new transport runs it with one line at the end, and one
//! more for each of its modes.

mod breaks;
#[path = "../common/mod.rs"]
mod common;
mod suite;
mod world;

use antiphon_core::{Role, Wire};

macro_rules! suite {
    ($case:ident = $transport:literal: $($check:ident)*) => {
        mod $case {
            $(#[test]
            fn $check() {
                crate::suite::$check($transport);
            })*
        }
    };
}

/// Each transport has the common checks, and those of its kind of wire.
macro_rules! conformance {
    (
        datagrams { $($case:ident = $transport:literal)* }
        streams { $($stream_case:ident = $stream:literal)* }
    ) => {
        const DATAGRAMS: &[&str] = &[$($transport),*];
        const STREAMS: &[&str] = &[$($stream),*];
        $(suite_of_all!($case = $transport: a_repair_that_comes_in_time_is_sent_and_no_other);)*
        $(suite_of_all!($stream_case = $stream: a_message_begun_on_a_stream_is_completed_after_its_deadline);)*
    };
}

macro_rules! suite_of_all {
    ($case:ident = $transport:literal: $($own:ident)*) => {
        suite!($case = $transport:
            clean_wire_delivers_every_message_unchanged
            every_stream_that_it_speaks_of_reaches_the_peer
            every_size_up_to_the_largest_is_carried_and_no_larger
            impairments_keep_one_outcome_per_message
            a_tag_given_twice_comes_back_twice
            no_message_is_begun_after_its_deadline
            nothing_comes_without_a_cause
            a_handled_time_out_is_spent
            nothing_comes_after_closed
            hostile_input_is_counted_and_never_a_panic
            memory_is_bounded_without_fetching_or_sending
            a_full_queue_says_when_there_is_room_again
            serial_numbers_wrap_unnoticed
            the_same_seed_repeats_exactly
            expiry_is_told_in_time_and_behind_messages_without_deadline
            a_broken_path_is_told_and_outlived
            closing_ends_on_a_broken_path
            a_graceful_close_sends_what_was_accepted_and_takes_no_more
            unfetched_messages_are_gone_after_closed
            an_endpoint_that_is_called_and_aborted_closes
            an_empty_datagram_is_no_message
            every_end_tells_the_fate_of_every_message
            $($own)*
        );
    };
}

#[test]
fn every_transport_is_tested_as_what_it_is() {
    let mut known: Vec<&str> = antiphon_proto::TRANSPORTS.iter().map(|t| t.scheme).collect();
    let tested = DATAGRAMS.iter().chain(STREAMS);
    let mut tested: Vec<&str> = tested.map(|case| case.split('?').next().unwrap_or(case)).collect();
    known.sort_unstable();
    tested.sort_unstable();
    tested.dedup();
    assert_eq!(tested, known, "add the transport's name below");
    for (cases, wire) in [(DATAGRAMS, Wire::Datagram), (STREAMS, Wire::ByteStream)] {
        for case in cases {
            assert_eq!(common::endpoint(case, Role::Caller, 1).profile().wire, wire, "{case}");
        }
    }
}

conformance! {
    datagrams {
        rtp = "rtp"
        sctp = "sctp"
        sctp_ordered = "sctp?order=ordered&reliability=full"
        sctp_streams = "sctp?order=ordered&streams=3"
        sctp_few_tries = "sctp?retransmissions=1"
        sctp_many = "sctp?style=many&interleaving=on"
        dccp = "dccp"
        dccp_ccid_2 = "dccp?ccid=2"
        srp = "srp"
        srp_as_published = "srp?mode=as-published"
        srp_nearest = "srp?decide=nearest"
        srp_full = "srp?reliability=full"
        arq = "arq"
        arq_as_published = "arq?mode=as-published"
        arq_paper_loop = "arq?mode=as-published&tick=100us"
        arq_aimd = "arq?congestion=aimd"
        arq_full = "arq?reliability=full"
        xtp = "xtp"
        xtp_on_gap = "xtp?acks=gap"
        xtp_each_fourth = "xtp?acks=4"
        xtp_at_intervals = "xtp?acks=10ms"
        xtp_never = "xtp?acks=never"
        xtp_full = "xtp?reliability=full&order=ordered"
        xtp_sorted = "xtp?sort=on&checksum=header&flow=off"
        xtp_paced = "xtp?out-rate=50Mbit/s&flow=reserved"
        xtp_datagrams = "xtp?service=datagram"
    }
    streams {
        tcp = "tcp"
    }
}
