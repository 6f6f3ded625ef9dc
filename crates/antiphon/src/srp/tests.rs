use std::net::UdpSocket;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use antiphon_proto::srp::{Mode, Settings};
use antiphon_testkit::unless_held_up;

use super::*;

fn udp() -> UdpSocket {
    UdpSocket::bind("127.0.0.1:0").expect("loopback")
}

fn settings(mode: Mode) -> Settings {
    Settings::new(mode, Duration::from_millis(250))
}

fn client(socket: &UdpSocket, peer: &UdpSocket, mode: Mode) -> Arc<SrpClient> {
    let to = peer.local_addr().unwrap();
    Arc::new(SrpClient::start(socket.as_raw_fd(), to, &settings(mode)).expect("a UDP socket"))
}

/// Stops a client that would wait for ever, unless dropped in time.
fn watchdog(client: &Arc<SrpClient>) -> mpsc::Sender<()> {
    let (in_time, ended) = mpsc::channel();
    let client = Arc::clone(client);
    std::thread::spawn(move || {
        if ended.recv_timeout(Duration::from_secs(20)) == Err(mpsc::RecvTimeoutError::Timeout) {
            client.stop();
        }
    });
    in_time
}

fn server(socket: &UdpSocket, peer: &UdpSocket, mode: Mode) -> SrpServer {
    let keep = Duration::from_secs(1);
    SrpServer::start(socket.as_raw_fd(), peer.local_addr().unwrap(), mode, keep).expect("a UDP socket")
}

#[test]
fn messages_pass_in_both_modes_and_what_is_no_packet_changes_nothing() {
    for mode in [Mode::AsPublished, Mode::Improved] {
        let (here, there) = (udp(), udp());
        let (client, server) = (client(&here, &there, mode), server(&there, &here, mode));
        let _watchdog = watchdog(&client);
        there.send_to(b"hello", here.local_addr().unwrap()).unwrap();
        here.send_to(b"hello", there.local_addr().unwrap()).unwrap();
        let mut buf = [0; 4];
        for n in 0..50u8 {
            server.send(&[n, n, n]).unwrap();
            assert_eq!(client.receive(&mut buf).unwrap(), Incoming::Message { len: 3 }, "{mode:?}");
            assert_eq!(buf[..3], [n, n, n]);
        }
        server.send(b"longer than the buffer").unwrap();
        assert_eq!(client.receive(&mut buf).unwrap(), Incoming::Message { len: 4 });
        assert_eq!(&buf, b"long");
    }
}

#[test]
fn a_lost_message_is_asked_for_and_repaired() {
    unless_held_up(Duration::from_millis(50), || {
        for (mode, order) in [(Mode::AsPublished, [1, 2, 3, 4]), (Mode::Improved, [1, 2, 4, 3])] {
            let (here, wire, there, end) = (udp(), udp(), udp(), udp());
            let (client_at, server_at) = (here.local_addr().unwrap(), there.local_addr().unwrap());
            let (server, client) = (server(&there, &wire, mode), client(&here, &wire, mode));
            let _watchdog = watchdog(&client);
            // The test carries the datagrams: all pass but the third message, once.
            let (wire_at, end_at) = (wire.local_addr().unwrap(), end.local_addr().unwrap());
            let passing = std::thread::spawn(move || {
                let (mut packet, mut from_server) = ([0; 1500], 0);
                loop {
                    let (len, from) = wire.recv_from(&mut packet).expect("loopback");
                    if from == end_at {
                        return from_server;
                    }
                    let data = from == server_at && packet[..len].ends_with(b"message");
                    from_server += i32::from(data);
                    if !data || from_server != 3 {
                        let to = if from == client_at { server_at } else { client_at };
                        wire.send_to(&packet[..len], to).expect("loopback");
                    }
                }
            });
            for n in 1..=4u8 {
                server.send(&[&[n][..], b"message"].concat()).unwrap();
            }
            let mut buf = [0; 100];
            for n in order {
                // Without a request it would be reported as lost, or waited for without end.
                assert_eq!(client.receive(&mut buf).unwrap(), Incoming::Message { len: 8 }, "{mode:?}");
                assert_eq!(buf[0], n, "{mode:?}");
            }
            end.send_to(b"end", wire_at).unwrap();
            assert!(passing.join().expect("the wire") >= 5, "sent four times and once again");
        }
    });
}

#[test]
fn stopping_and_closing_end_a_wait() {
    for mode in [Mode::AsPublished, Mode::Improved] {
        let (here, there) = (udp(), udp());
        let client = client(&here, &there, mode);
        let client = &client;
        std::thread::scope(|scope| {
            let (about_to, is_about_to) = mpsc::channel();
            let waiting = scope.spawn(move || {
                about_to.send(()).unwrap();
                client.receive(&mut [0; 10])
            });
            is_about_to.recv().unwrap();
            client.stop();
            let error = waiting.join().unwrap().unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::ECANCELED));
        });
    }
    let (here, there) = (udp(), udp());
    let (to_server, to_client) = (there.local_addr().unwrap(), here.local_addr().unwrap());
    let (here, there) = (here.into_raw_fd(), there.into_raw_fd());
    let client = SrpClient::start(here, to_server, &settings(Mode::AsPublished)).unwrap();
    let server = SrpServer::start(there, to_client, Mode::AsPublished, Duration::ZERO).unwrap();
    for fd in [here, there] {
        close(fd);
    }
    assert_eq!(client.receive(&mut [0; 10]).unwrap_err().raw_os_error(), Some(libc::EBADF));
    assert_eq!(server.send(b"x").unwrap_err().raw_os_error(), Some(libc::EBADF));
    server.stop();
    assert_eq!(server.send(b"x").unwrap_err().raw_os_error(), Some(libc::ECANCELED));
}

/// Closes a descriptor as a C program would.
#[allow(unsafe_code, reason = "the number is no Rust value's, as in C")]
fn close(fd: RawFd) {
    // SAFETY: the test has taken it out of its socket, and closes it once.
    drop(unsafe { OwnedFd::from_raw_fd(fd) });
}

#[test]
fn what_cannot_be_is_refused() {
    let (here, there) = (udp(), udp());
    let (fd, to) = (here.as_raw_fd(), there.local_addr().unwrap());
    for loss in [0.0, 1.0, -0.5, 2.0, f64::NAN, f64::INFINITY] {
        let settings = Settings { desired_loss: loss, ..settings(Mode::AsPublished) };
        let error = SrpClient::start(fd, to, &settings).err().expect("refused");
        assert_eq!(error.raw_os_error(), Some(libc::EINVAL), "{loss}");
    }
    let server = server(&there, &here, Mode::AsPublished);
    assert_eq!(server.send(&[]).unwrap_err().raw_os_error(), Some(libc::EINVAL));
    assert_eq!(server.max_message(), 1480);
    assert_eq!(server.send(&[0; 1481]).unwrap_err().raw_os_error(), Some(libc::EMSGSIZE));
    server.send(&[0; 1480]).unwrap();
}
