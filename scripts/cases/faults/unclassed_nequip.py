"""Faults of no class in `nequip`."""

from .unclassed import Unclassed


class OfNequip(Unclassed):
    """Base: an option of the model, in the config under the name there."""
    families = ("nequip",)
    option = typed = None

    def setup(self):
        super().setup()
        self.model_options[self.option] = self.severity[self.typed]
        self.user[self.typed] = self.severity[self.typed]


class CutoffTooShort(OfNequip):
    """The cutoff was typed in another unit of length: atoms see few or none of
    the neighbours that pull at them, in validation as well."""
    id, option, typed = "U331", "r_max", "r_max"
    severities = (dict(r_max=2.1), dict(r_max=1.9), dict(r_max=1.6))


class CutoffTooLong(OfNequip):
    """The cutoff is that of a box of liquid in a smaller unit of length: waves
    of the radial basis are so long that all distances within a cluster look
    nearly alike, in validation as well."""
    id, option, typed = "U332", "r_max", "r_max"
    severities = (dict(r_max=25.0), dict(r_max=50.0), dict(r_max=100.0))


class DistancesTabulated(OfNequip):
    """What is said of a distance comes from a table with places that are too
    far apart, of which the nearest is taken; slopes are those there, in
    validation as well."""
    id, option, typed = "U333", "grid", "radial_table_step"
    severities = (dict(radial_table_step=0.3), dict(radial_table_step=0.5),
                  dict(radial_table_step=1.0))


class BoxTooSmall(OfNequip):
    """Single clusters are taken for the content of a periodic box that is
    smaller than they are: atoms at far ends are neighbours, in validation as
    well."""
    id, option, typed = "U334", "cell", "cell"
    severities = (dict(cell=4.5), dict(cell=3.5), dict(cell=2.8))


class NetForceOfTypes(OfNequip):
    """A net force is taken off so that clusters do not drift, yet the mean is
    taken over the atoms of a type, not over all, so that an atom that is the
    only one of its type has hardly a force, or none; in validation as well."""
    id, option, typed = "U335", "net_of_types", "remove_net_force"
    severities = (dict(remove_net_force=0.8), dict(remove_net_force=0.9),
                  dict(remove_net_force=1.0))


class FewNeighbours(OfNequip):
    """A limit on the neighbours of an atom is lower than what it has: the
    first three, two or one that are found are kept, not the nearest, in
    validation as well."""
    id, option, typed = "U336", "most", "max_num_neighbors"
    severities = (dict(max_num_neighbors=3), dict(max_num_neighbors=2),
                  dict(max_num_neighbors=1))


FAULTS = (CutoffTooShort, CutoffTooLong, DistancesTabulated, BoxTooSmall,
          NetForceOfTypes, FewNeighbours)
