//! Prepares the calling thread for media: real-time scheduling where permitted, exact timers.

use std::fmt;

use crate::system;

/// Scheduling that a media thread obtained from the operating system.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Scheduling {
    /// `SCHED_FIFO` at this priority.
    Fifo(i32),
    /// A raised priority among ordinary threads: this nice value.
    Nice(i32),
    /// The class of this name of Windows's multimedia scheduler (MMCSS), whose priorities are real-time ones.
    Multimedia(&'static str),
    /// The highest priority of Windows among ordinary threads (`THREAD_PRIORITY_TIME_CRITICAL`).
    TimeCritical,
    /// Nothing, and why.
    Ordinary(String),
}

impl fmt::Display for Scheduling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scheduling::Fifo(priority) => write!(f, "real-time (SCHED_FIFO {priority})"),
            Scheduling::Nice(nice) => write!(f, "raised priority (nice {nice})"),
            Scheduling::Multimedia(class) => write!(f, "real-time (multimedia class '{class}')"),
            Scheduling::TimeCritical => write!(f, "raised priority (time-critical)"),
            Scheduling::Ordinary(why) => write!(f, "ordinary ({why})"),
        }
    }
}

/// Raises the calling thread's priority as far as permitted: `SCHED_FIFO`, else a lower nice value, else none; on Windows the class of sound programs, else the
/// highest ordinary priority.
///
/// Timer slack is set to its minimum in every case, so that waits end on time.
pub fn become_media_thread() -> Scheduling {
    system::end_waits_on_time();
    let raised = system::raise_priority();
    match (ask_for_real_time(MEDIA_PRIORITY), raised) {
        (Scheduling::Ordinary(_), Some(raised)) => raised,
        (other, _) => other,
    }
}

/// Real-time scheduling for the calling thread (`SCHED_FIFO` at `priority`, or what the system has in its place), or why it was refused.
pub(crate) fn ask_for_real_time(priority: i32) -> Scheduling {
    system::become_real_time(priority)
        .unwrap_or_else(|refused| Scheduling::Ordinary(format!("{refused}; {}", system::REAL_TIME_REMEDY)))
}

/// The real-time priority that media threads ask for: below JACK's usual 70 to 80 for the sound server, above all
/// ordinary threads.
pub const MEDIA_PRIORITY: i32 = 60;

#[cfg(all(test, target_os = "linux"))]
mod tests {
    #![allow(unsafe_code, reason = "what the kernel says is asked for by its own calls")]

    use super::*;

    #[test]
    fn reported_scheduling_equals_the_kernels() {
        // On a thread of its own, since the priority is the thread's.
        let checked = std::thread::spawn(|| {
            let obtained = become_media_thread();
            // SAFETY: plain system calls on the calling thread.
            let (policy, nice, slack) = unsafe {
                let slack = libc::prctl(libc::PR_GET_TIMERSLACK, 0, 0, 0, 0);
                (libc::sched_getscheduler(0), libc::getpriority(libc::PRIO_PROCESS, 0), slack)
            };
            match &obtained {
                Scheduling::Fifo(_) => assert_eq!(policy, libc::SCHED_FIFO),
                Scheduling::Nice(wanted) => assert_eq!((policy, nice), (libc::SCHED_OTHER, *wanted)),
                Scheduling::Multimedia(_) | Scheduling::TimeCritical => panic!("not on Linux: {obtained}"),
                Scheduling::Ordinary(why) => {
                    assert_eq!(policy, libc::SCHED_OTHER);
                    assert!(why.contains("rtprio"), "the remedy is named: {why}");
                }
            }
            // A real-time thread needs no slack and is given none.
            assert!(slack <= 1, "{slack} ns");
            assert!(!obtained.to_string().is_empty());
        });
        checked.join().expect("no panic");
    }
}
