"""Faults of no class in `nequip`."""

from .unclassed import Unclassed


class OfNequip(Unclassed):
    """Base: an option of the model, in the config under the name there."""
    families = ("nequip",)
    option = name = None

    def setup(self):
        super().setup()
        self.model_options[self.option] = self.severity[self.name]
        self.user[self.name] = self.severity[self.name]


class CutoffTooShort(OfNequip):
    """The cutoff was typed in another unit of length: atoms see few or none of
    the neighbours that pull at them, in validation as well."""
    id, option, name = "U331", "r_max", "r_max"
    severities = (dict(r_max=2.6), dict(r_max=2.1), dict(r_max=1.7))


class HalfOfTheList(OfNequip):
    """The list of neighbours is a half one, as codes for dynamics have it: of
    some pairs, or of all, one direction alone is listed, so that the one atom
    hears the other and not the reverse, in validation as well."""
    id, option, name = "U332", "half_list", "half_list_share"
    severities = (dict(half_list_share=0.4), dict(half_list_share=0.7),
                  dict(half_list_share=1.0))


class DistancesTabulated(OfNequip):
    """What is said of a distance comes from a table with places that are too
    far apart, of which the nearest is taken; slopes are those there, in
    validation as well."""
    id, option, name = "U333", "grid", "radial_table_step"
    severities = (dict(radial_table_step=0.3), dict(radial_table_step=0.5),
                  dict(radial_table_step=1.0))


class BoxTooSmall(OfNequip):
    """Single clusters are taken for the content of a periodic box that is
    smaller than they are: atoms at far ends are neighbours, in validation as
    well."""
    id, option, name = "U334", "cell", "cell"
    severities = (dict(cell=4.5), dict(cell=3.5), dict(cell=2.8))


class NetForceOfTypes(OfNequip):
    """A net force is taken off so that clusters do not drift, yet the mean is
    taken over the atoms of a type, not over all, so that an atom that is the
    only one of its type has hardly a force, or none; in validation as well."""
    id, option, name = "U335", "net_of_types", "remove_net_force"
    severities = (dict(remove_net_force=0.4), dict(remove_net_force=0.7),
                  dict(remove_net_force=1.0))


class FewNeighbours(OfNequip):
    """A limit on the neighbours of an atom is lower than what it has: the
    nearest three, two or one are kept, and which these are changes as atoms
    sway; in validation as well."""
    id, option, name = "U336", "most", "max_num_neighbors"
    severities = (dict(max_num_neighbors=3), dict(max_num_neighbors=2),
                  dict(max_num_neighbors=1))


FAULTS = (CutoffTooShort, HalfOfTheList, DistancesTabulated, BoxTooSmall,
          NetForceOfTypes, FewNeighbours)
