"""The use cases: what Perago does, over the ports, with no idea which adapters are behind them."""
