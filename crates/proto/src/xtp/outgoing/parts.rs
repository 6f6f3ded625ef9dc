//! How messages longer than a packet are cut.

use super::super::wire::TAG;

/// Bytes of the part from `at` on of a message of `len` bytes, at most `most`: a message becomes as few packets as can be, of one length, of which the
/// first holds the tag as well, since kernels take and hand over packets of one length together (`UDP_SEGMENT`, udp(7)).
pub(in super::super) fn part_len(len: usize, at: usize, most: usize) -> usize {
    let rest = len - at;
    if len <= most {
        return rest;
    }
    let share = (len + TAG).div_ceil(len.div_ceil(most));
    match at {
        _ if share > most => rest.min(most),
        0 => share - TAG,
        _ => rest.min(share),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parts(len: usize, most: usize) -> Vec<usize> {
        let mut at = 0;
        std::iter::from_fn(|| {
            let part = (at < len).then(|| part_len(len, at, most))?;
            at += part;
            Some(part)
        })
        .collect()
    }

    #[test]
    fn parts_of_a_message_make_packets_of_one_length() {
        // A datum of 4096 bytes of voice behind an RTP header.
        assert_eq!(parts(4_108, 1_412), [1_364, 1_372, 1_372]);
        assert_eq!(parts(1_500, 1_412), [746, 754]);
        assert_eq!((parts(1_412, 1_412), parts(1, 1_412)), (vec![1_412], vec![1]));
        // No room for the tag beside an even share.
        assert_eq!(parts(2_824, 1_412), [1_412, 1_412]);
    }

    proptest! {
        #[test]
        fn parts_are_few_and_fit(len in 1_usize..70_000, most in 400_usize..9_000) {
            let parts = parts(len, most);
            prop_assert_eq!(parts.iter().sum::<usize>(), len);
            prop_assert!(parts.len() == len.div_ceil(most) && parts.iter().all(|part| *part <= most));
        }

        #[test]
        fn a_path_that_becomes_narrower_in_the_middle_of_a_message_is_not_overfilled(
            len in 1_400_usize..70_000,
            most in 400_usize..1_400,
        ) {
            let mut at = part_len(len, 0, 1_400);
            while at < len {
                let part = part_len(len, at, most);
                prop_assert!(part > 0 && part <= most);
                at += part;
            }
            prop_assert_eq!(at, len);
        }
    }
}
