//! Many cells: the only place with threads.
