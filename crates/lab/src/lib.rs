//! Foreign web servers described by files, started and measured.
