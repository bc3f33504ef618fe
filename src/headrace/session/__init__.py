"""What a client is to the engine, whatever carries its bytes."""
