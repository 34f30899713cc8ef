"""The commands `holdfast zoo list`, `holdfast zoo card NAME` and `holdfast zoo get NAME`."""


def list_networks() -> None:
    """List the trained networks that `hf.load("zoo:NAME")` and `holdfast audit --model zoo:NAME` know.

    PGD is the accuracy under PGD. Top-k and Kendall are medians under the strongest attack, or - where it was not
    measured; `holdfast zoo card NAME` prints all figures with their n and intervals. Weights that are not packaged are
    downloaded when they are first used, from the release or from the place that HOLDFAST_ZOO names.

    Usage examples:
        holdfast zoo list
    """
    from rich.console import Console
    from rich.table import Column, Table

    from holdfast.zoo import list as networks

    heads = ("name", "accuracy", "PGD", "top-k", "Kendall", "weights")
    table = Table(*(Column(head, no_wrap=True) for head in heads), box=None, pad_edge=False, padding=(0, 1, 0, 0))
    for network in networks():
        top, tau = network.under_strongest
        shares = (network.natural_accuracy, network.pgd_accuracy, top)
        accuracy, pgd, top_k = ("-" if share is None else f"{share:.1%}" for share in shares)
        kendall = "-" if tau is None else f"{tau:.3f}"
        place = "packaged" if network.packaged else f"{network.bytes / 1e6:.1f} MB"
        table.add_row(network.name, accuracy, pgd, top_k, kendall, place)
    Console().print(table)


def show_card(name: str, /) -> None:
    """Print the model card of a network: data, method, figures, licence, and how to make it again.

    Usage examples:
        holdfast zoo card gtsrb/madry

    Args:
        name: Name of the network, as shown by `holdfast zoo list`.
    """
    from holdfast.zoo import card

    print(card(name), end="")


def get_network(name: str, /, release: str | None = None) -> None:
    """Get the weights of a network, verify their checksum and store them in the cache folder.

    The weights come from the release of this version, or from the folder or https address in the environment variable
    HOLDFAST_ZOO or in --release.

    Usage examples:
        holdfast zoo get mnist/madry
        holdfast zoo get mnist/madry --release downloads/  # files that you downloaded yourself

    Args:
        name: Name of the network, as shown by `holdfast zoo list`.
        release: Folder or https address with the weight files of a release.
    """
    from holdfast.zoo import fetch

    print(f"{name}: verified, at {fetch(name, release=release)}")
