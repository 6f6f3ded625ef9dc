//! What a sender to a group says of members that slow its pictures no longer.

use antiphon_session::Uncounted;

/// Sentences about members of a group that slow its pictures no longer.
pub(super) fn newly_uncounted(before: Uncounted, now: Uncounted) -> impl Iterator<Item = String> {
    let false_reports = (now.contradicting > before.contradicting).then(|| {
        "a member of the group sends false reports: its reports no longer limit the rate of the pictures"
            .to_string()
    });
    let slow = (now.far_below > before.far_below).then(|| {
        "the path of a member of the group carries far less than the others: it no longer limits the rate of the pictures, and its sound may be \
         late; give it a faster path, or send a --video of a lower rate"
            .to_string()
    });
    let without_room = (now.without_room > before.without_room).then(|| {
        "the path of a member of the group has no room for pictures beside the sound: it does not limit their rate, and its sound may be late; give \
         it a faster path, or send sound alone"
            .to_string()
    });
    false_reports.into_iter().chain(slow).chain(without_room)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_that_slow_pictures_no_longer_are_told_once() {
        let of = |contradicting, far_below| Uncounted { contradicting, far_below, without_room: 0 };
        let short = |without_room| Uncounted { without_room, ..of(0, 0) };
        let told = |before, now| newly_uncounted(before, now).collect::<Vec<_>>();
        let (lies, slow) = ("sends false reports", "carries far less than the others");
        for (before, now, expected) in [
            (of(0, 0), of(0, 0), &[][..]),
            (of(0, 0), of(1, 0), &[lies]),
            (of(1, 0), of(1, 0), &[]),
            (of(1, 0), of(1, 1), &[slow]),
            // One that counts again, and then does not.
            (of(1, 1), of(0, 0), &[]),
            (of(0, 0), of(2, 1), &[lies, slow]),
            (short(0), short(1), &["has no room for pictures"]),
            (short(2), short(1), &[]),
        ] {
            let sentences = told(before, now);
            assert_eq!(sentences.len(), expected.len(), "{sentences:?}");
            assert!(sentences.iter().zip(expected).all(|(one, part)| one.contains(part)), "{sentences:?}");
        }
    }
}
