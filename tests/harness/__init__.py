"""What tests with real servers share: workers, SQL, topics, and waiting."""
