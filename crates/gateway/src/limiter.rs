//! Keeps each client within its budget of requests.
