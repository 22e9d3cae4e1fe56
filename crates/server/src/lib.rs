//! Configuration, listeners, logs, signals: a running server from a config file.
