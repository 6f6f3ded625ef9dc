//! JACK's C library, loaded when it is first used.
//!
//! Building needs nothing of JACK, and a machine without it lacks only `jack:`. The crates that bind the library look for
//! its development package when they are built, so the few functions that are needed are declared here.
#![allow(unsafe_code, reason = "the functions of a C library, looked up by name")]

use std::ffi::{c_char, c_int, c_uint, c_ulong, c_void};
use std::sync::OnceLock;

use libloading::Library;

/// A client, as the library sees it.
#[repr(C)]
pub(super) struct RawClient {
    _opaque: [u8; 0],
}

/// A port, as the library sees it.
#[repr(C)]
pub(super) struct RawPort {
    _opaque: [u8; 0],
}

/// `jack_latency_range_t`, in sample frames.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct LatencyRange {
    pub min: u32,
    pub max: u32,
}

/// `JackNoStartServer` of `jack_options_t`: a server is used, never started.
pub(super) const NO_START_SERVER: c_int = 0x01;
/// `JackPortIsInput`, `JackPortIsOutput` and `JackPortIsPhysical`.
pub(super) const IS_INPUT: c_ulong = 0x1;
pub(super) const IS_OUTPUT: c_ulong = 0x2;
pub(super) const IS_PHYSICAL: c_ulong = 0x4;
/// `JackCaptureLatency` of `jack_latency_callback_mode_t`.
pub(super) const CAPTURE_LATENCY: c_int = 0;
/// `JackPlaybackLatency` of it.
pub(super) const PLAYBACK_LATENCY: c_int = 1;
/// `JACK_DEFAULT_AUDIO_TYPE`.
pub(super) const AUDIO: &std::ffi::CStr = c"32 bit float mono audio";

pub(super) type ProcessCallback = unsafe extern "C" fn(u32, *mut c_void) -> c_int;
pub(super) type XrunCallback = unsafe extern "C" fn(*mut c_void) -> c_int;
pub(super) type FreewheelCallback = unsafe extern "C" fn(c_int, *mut c_void);
pub(super) type ShutdownCallback = unsafe extern "C" fn(c_int, *const c_char, *mut c_void);
pub(super) type LatencyCallback = unsafe extern "C" fn(c_int, *mut c_void);
type MessageCallback = unsafe extern "C" fn(*const c_char);

/// Declares the functions once: as fields, and where they are looked up.
macro_rules! functions {
    ($($name:ident: $signature:ty,)*) => {
        /// The functions of the library, by the names in its `jack.h`.
        pub(super) struct Functions {
            $(pub $name: $signature,)*
            /// Never closed: threads of the library may outlive every client.
            _library: Library,
        }

        impl Functions {
            fn look_up(library: Library) -> Result<Self, libloading::Error> {
                Ok(Functions {
                    // SAFETY: the signature is that of jack.h, whose functions never change.
                    $($name: *unsafe { library.get::<$signature>(stringify!($name).as_bytes())? },)*
                    _library: library,
                })
            }
        }
    };
}

functions! {
    jack_client_open: unsafe extern "C" fn(*const c_char, c_int, *mut c_int, ...) -> *mut RawClient,
    jack_client_close: unsafe extern "C" fn(*mut RawClient) -> c_int,
    jack_get_client_name: unsafe extern "C" fn(*mut RawClient) -> *const c_char,
    jack_activate: unsafe extern "C" fn(*mut RawClient) -> c_int,
    jack_set_process_callback: unsafe extern "C" fn(*mut RawClient, ProcessCallback, *mut c_void) -> c_int,
    jack_set_xrun_callback: unsafe extern "C" fn(*mut RawClient, XrunCallback, *mut c_void) -> c_int,
    jack_set_freewheel_callback: unsafe extern "C" fn(*mut RawClient, FreewheelCallback, *mut c_void) -> c_int,
    jack_on_info_shutdown: unsafe extern "C" fn(*mut RawClient, ShutdownCallback, *mut c_void),
    jack_set_latency_callback: unsafe extern "C" fn(*mut RawClient, LatencyCallback, *mut c_void) -> c_int,
    jack_recompute_total_latencies: unsafe extern "C" fn(*mut RawClient) -> c_int,
    jack_port_set_latency_range: unsafe extern "C" fn(*mut RawPort, c_int, *mut LatencyRange),
    jack_port_get_latency_range: unsafe extern "C" fn(*mut RawPort, c_int, *mut LatencyRange),
    jack_get_sample_rate: unsafe extern "C" fn(*mut RawClient) -> u32,
    jack_get_buffer_size: unsafe extern "C" fn(*mut RawClient) -> u32,
    jack_frames_since_cycle_start: unsafe extern "C" fn(*const RawClient) -> u32,
    jack_last_frame_time: unsafe extern "C" fn(*const RawClient) -> u32,
    jack_port_register:
        unsafe extern "C" fn(*mut RawClient, *const c_char, *const c_char, c_ulong, c_ulong) -> *mut RawPort,
    jack_port_get_buffer: unsafe extern "C" fn(*mut RawPort, u32) -> *mut c_void,
    jack_port_name: unsafe extern "C" fn(*const RawPort) -> *const c_char,
    jack_port_get_connections: unsafe extern "C" fn(*const RawPort) -> *mut *const c_char,
    jack_get_ports:
        unsafe extern "C" fn(*mut RawClient, *const c_char, *const c_char, c_ulong) -> *mut *const c_char,
    jack_connect: unsafe extern "C" fn(*mut RawClient, *const c_char, *const c_char) -> c_int,
    jack_free: unsafe extern "C" fn(*mut c_void),
    jack_set_error_function: unsafe extern "C" fn(MessageCallback),
    jack_set_info_function: unsafe extern "C" fn(MessageCallback),
}

/// Of `jack_status_t`: the name was in use and another was given.
pub(super) const NAME_NOT_UNIQUE: c_uint = 0x04;
/// The server speaks another version of the protocol.
pub(super) const VERSION_ERROR: c_uint = 0x400;

/// The library, or why it can't be loaded.
pub(super) fn library() -> Result<&'static Functions, &'static str> {
    static LOADED: OnceLock<Result<Functions, String>> = OnceLock::new();
    LOADED.get_or_init(load).as_ref().map_err(String::as_str)
}

fn load() -> Result<Functions, String> {
    let mut why = String::new();
    for name in NAMES {
        // SAFETY: loading JACK's library runs no code but its constructors, which set up its own state.
        match unsafe { Library::new(name) }.and_then(Functions::look_up) {
            Ok(functions) => {
                // SAFETY: the callback touches nothing. What the library would print is told by its results as well.
                unsafe {
                    (functions.jack_set_error_function)(ignore);
                    (functions.jack_set_info_function)(ignore);
                }
                return Ok(functions);
            }
            Err(error) => why = error.to_string(),
        }
    }
    Err(why)
}

unsafe extern "C" fn ignore(_message: *const c_char) {}

#[cfg(windows)]
const NAMES: [&str; 2] = ["libjack64.dll", "libjack.dll"];
#[cfg(not(any(windows, target_os = "macos")))]
const NAMES: [&str; 1] = ["libjack.so.0"];
#[cfg(target_os = "macos")]
const NAMES: [&str; 3] =
    ["libjack.0.dylib", "/usr/local/lib/libjack.0.dylib", "/opt/homebrew/lib/libjack.0.dylib"];
