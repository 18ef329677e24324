"""What providers and stores of both backends share."""
