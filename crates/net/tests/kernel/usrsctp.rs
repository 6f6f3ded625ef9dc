//! usrsctp.
